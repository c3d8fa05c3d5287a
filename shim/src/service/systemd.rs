//! `systemd --user`, asked through `systemctl` and `loginctl`.
//!
//! It owns how a unit's text is made and how the answers of `systemctl show` are read. A host may have passed no
//! XDG_RUNTIME_DIR, so the manager is looked for where logind puts it. A manager of another home directory is none:
//! its daemon would serve another state.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::environment::{Environment, find_program};

use super::{
    Activity, Change, Enablement, Freshness, Lingering, NoManager, PATIENCE, PROMPT, ServiceError, Unit, remove_file,
    write_file,
};
use crate::process;

/// The daemon's unit.
pub const SERVICE: &str = "groundingd.service";
/// The optional unit that listens in its place.
pub const SOCKET: &str = "groundingd.socket";

/// The unit as it is installed from the repository; its program is replaced.
const SERVICE_TEXT: &str = include_str!("groundingd.service");
/// The line of the text that names the program.
const PROGRAM_LINE: &str = "ExecStart=%h/.local/bin/groundingd serve";

/// Where `systemctl` is when PATH does not lead to it.
const PROGRAM_DIRECTORIES: &str = "/usr/bin:/bin:/usr/local/bin";

/// What is asked of a unit.
const PROPERTIES: &str = "--property=Id,LoadState,ActiveState,UnitFileState,FragmentPath,ExecStart,ExecMainStatus,MainPID,Result,\
                          StatusText,Environment,NeedDaemonReload";

/// A manager that answered, of this user and this home directory.
#[derive(Debug, Clone)]
pub struct Systemd {
    systemctl: PathBuf,
    /// This environment, with the runtime directory that leads to the manager.
    environment: Environment,
    /// What the manager gives to its services.
    given: Environment,
}

impl Systemd {
    /// Finds the user's manager and makes sure that it answers.
    ///
    /// # Errors
    /// Why there is none, or none for this home directory.
    pub async fn find(environment: &Environment) -> Result<Self, NoManager> {
        let runtime = runtime_directory(environment);
        let answers = ["systemd/private", "bus"].iter().any(|socket| runtime.join(socket).exists());
        if !answers {
            return Err(NoManager::Absent { why: format!("{} has no socket of one", runtime.display()) });
        }
        let systemctl = program(environment, "systemctl").ok_or_else(|| NoManager::Absent {
            why: format!("systemctl is neither on PATH nor in {PROGRAM_DIRECTORIES}"),
        })?;
        let kept = environment.variables().iter().filter(|(name, _)| name != "XDG_RUNTIME_DIR").cloned();
        let asking = kept.chain([("XDG_RUNTIME_DIR".into(), runtime.into_os_string())]).collect();
        let mut manager = Self {
            systemctl,
            environment: Environment::of_variables(asking),
            given: Environment::of_variables(Vec::new()),
        };
        let shown = manager.ask(&["show-environment"], PROMPT).await.map_err(NoManager::Silent)?;
        manager.given = Environment::of_variables(shown.lines().filter_map(variable).collect());
        let (theirs, ours) = (manager.given.home().ok(), environment.home().ok());
        if !is_same_directory(theirs, ours) {
            let shown = |home: Option<&Path>| home.unwrap_or(Path::new("")).to_owned();
            return Err(NoManager::OtherHome { manager: shown(theirs), ours: shown(ours) });
        }
        Ok(manager)
    }

    /// Returns what people call the manager.
    #[must_use]
    pub fn name(&self) -> &'static str {
        "systemd"
    }

    /// Returns the command that shows what the daemon told the manager.
    #[must_use]
    pub fn journal_command(&self) -> &'static str {
        "journalctl --user -u groundingd"
    }

    /// Returns where the unit's file belongs.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        let home = self.environment.home().unwrap_or(Path::new("/"));
        let set = self.given.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        set.unwrap_or_else(|| home.join(".config")).join("systemd/user").join(SERVICE)
    }

    /// Returns the text of a unit that starts this program.
    ///
    /// # Errors
    /// When systemd can't name it.
    pub fn text(&self, program: &Path) -> Result<String, ServiceError> {
        text(program)
    }

    /// Returns whether a daemon of the manager would have the state directory of this environment.
    #[must_use]
    pub fn serves_the_same_state(&self, unit: &Unit) -> bool {
        let mut own = unit.variables.split_whitespace().map(|word| word.trim_start_matches('"'));
        let moved = own.any(|word| word.starts_with("GROUNDING_STATE_DIR=") || word.starts_with("HOME="));
        let theirs = self.given.state_dir();
        !moved && is_same_directory(theirs.ok().as_deref(), self.environment.state_dir().ok().as_deref())
    }

    /// Returns what the manager knows of the daemon's unit.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn unit(&self) -> Result<Unit, ServiceError> {
        Ok(parse_unit(&self.ask(&["show", PROPERTIES, SERVICE], PROMPT).await?))
    }

    /// Returns what the manager knows of the unit that listens for the daemon.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn socket_unit(&self) -> Result<Unit, ServiceError> {
        Ok(parse_unit(&self.ask(&["show", PROPERTIES, SOCKET], PROMPT).await?))
    }

    /// Writes a unit that starts this program, and has the manager read it. Neither enables nor starts it.
    ///
    /// # Errors
    /// When the file can't be written or the manager does not read it.
    pub async fn install(&self, program: &Path) -> Result<Change, ServiceError> {
        let change = write_file(&self.file(), &text(program)?)?;
        if change == Change::Written || self.unit().await?.freshness == Freshness::Changed {
            self.ask(&["daemon-reload"], PATIENCE).await?;
        }
        Ok(change)
    }

    /// Has the unit started with the user's sessions from now on; does not start it now.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn enable(&self) -> Result<(), ServiceError> {
        self.ask(&["enable", SERVICE], PATIENCE).await.map(drop)
    }

    /// Takes that back; does not stop it.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn disable(&self) -> Result<(), ServiceError> {
        self.ask(&["disable", SERVICE], PATIENCE).await.map(drop)
    }

    /// Removes the unit's file and has the manager forget it. To be stopped and disabled before.
    ///
    /// # Errors
    /// When the file can't be removed or the manager does not forget it.
    pub async fn remove(&self) -> Result<Change, ServiceError> {
        let change = remove_file(&self.file())?;
        if change == Change::Written {
            self.ask(&["daemon-reload"], PATIENCE).await?;
            // It fails when nothing of the unit is remembered, which is what is wanted.
            let _ = self.ask(&["reset-failed", SERVICE], PROMPT).await;
        }
        Ok(change)
    }

    /// Starts the daemon and returns when it is ready; one that runs is left alone. The socket's unit, where it is enabled, is
    /// started with it.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn start(&self) -> Result<(), ServiceError> {
        let socket = self.socket_unit().await?;
        self.forget_failures().await;
        if socket.enablement == Enablement::Enabled && socket.activity != Activity::Active {
            // First: it can't listen any more once the daemon does. One that can't be started is no reason to go without.
            let _ = self.ask(&["start", SOCKET], PATIENCE).await;
        }
        self.ask(&["start", SERVICE], PATIENCE).await.map(drop)
    }

    /// Has the manager forget how the units ended and how often they were started: its limit is for a daemon that crashes by
    /// itself, not for starts that clients and people ask for.
    pub async fn forget_failures(&self) {
        // It fails for a unit that the manager has nothing to forget of.
        let _ = self.ask(&["reset-failed", SERVICE, SOCKET], PROMPT).await;
    }

    /// Stops the unit that listens for the daemon, if there is one: the next connection would start the daemon.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn stop_listening(&self) -> Result<(), ServiceError> {
        match self.socket_unit().await?.activity {
            Activity::Inactive | Activity::Failed => Ok(()),
            _ => self.ask(&["stop", SOCKET], PATIENCE).await.map(drop),
        }
    }

    /// Ends the daemon, and what would start it again: the socket's unit and the manager's own restart.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn stop(&self) -> Result<(), ServiceError> {
        self.stop_listening().await?;
        self.ask(&["stop", SERVICE], PATIENCE).await.map(drop)
    }

    /// Returns whether the user's services outlive the user's sessions.
    pub async fn lingering(&self) -> Lingering {
        let uid = rustix::process::geteuid().as_raw().to_string();
        if let Some(loginctl) = program(&self.environment, "loginctl") {
            let asked = self.run(&loginctl, &["show-user", &uid, "--property=Linger", "--value"], PROMPT).await;
            match asked.as_deref().map(str::trim) {
                Ok("yes") => return Lingering::On,
                Ok("no") => return Lingering::Off,
                // logind says nothing of a user who is not logged in; the file is what it goes by.
                _ => {}
            }
        }
        let Some(name) = ["USER", "LOGNAME"].iter().find_map(|name| self.environment.get(name)) else {
            return Lingering::Unknown;
        };
        let directory = Path::new("/var/lib/systemd/linger");
        match directory.join(name).try_exists() {
            Ok(true) => Lingering::On,
            Ok(false) if directory.is_dir() => Lingering::Off,
            _ => Lingering::Unknown,
        }
    }

    async fn ask(&self, arguments: &[&str], limit: Duration) -> Result<String, ServiceError> {
        let all = [&["--user", "--no-pager", "--no-ask-password"], arguments].concat();
        self.run(&self.systemctl, &all, limit).await
    }

    async fn run(&self, program: &Path, arguments: &[&str], limit: Duration) -> Result<String, ServiceError> {
        let mut command = process::plain(program);
        command.env_clear().envs(self.environment.variables().iter().cloned()).args(arguments).current_dir("/");
        match tokio::time::timeout(limit, process::run(command)).await {
            Ok(output) => Ok(output?),
            Err(_) => {
                let name = program.file_name().unwrap_or_default().display();
                Err(ServiceError::TimedOut { command: format!("{name} {}", arguments.join(" ")), limit })
            }
        }
    }
}

fn program(environment: &Environment, name: &str) -> Option<PathBuf> {
    let on_path = environment.get("PATH").and_then(|path| find_program(path, name));
    on_path.or_else(|| find_program(PROGRAM_DIRECTORIES.as_ref(), name))
}

/// Returns the user's runtime directory: where the environment says, else where logind makes it.
fn runtime_directory(environment: &Environment) -> PathBuf {
    let set = environment.get("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    set.unwrap_or_else(|| PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw())))
}

fn is_same_directory(one: Option<&Path>, other: Option<&Path>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn text(program: &Path) -> Result<String, ServiceError> {
    let refused = |problem| ServiceError::Program { program: program.to_owned(), problem };
    let path = program.to_str().ok_or_else(|| refused("is not UTF-8"))?;
    if !program.is_absolute() {
        return Err(refused("is not absolute"));
    }
    // systemd refuses these in the path of a program, however they are quoted.
    if path.chars().any(|character| character.is_control() || matches!(character, '"' | '\'' | '\\')) {
        return Err(refused("holds a quote, a backslash or a control character"));
    }
    Ok(SERVICE_TEXT.replace(PROGRAM_LINE, &format!("ExecStart=\"{}\" serve", path.replace('%', "%%"))))
}

/// Reads a line of `show-environment`: the value stands bare, or between `$'` and `'` with escapes.
fn variable(line: &str) -> Option<(OsString, OsString)> {
    let (name, value) = line.split_once('=')?;
    let quoted = value.strip_prefix("$'").and_then(|rest| rest.strip_suffix('\''));
    let value = quoted.map_or_else(|| value.to_owned(), unescaped);
    Some((name.into(), value.into()))
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            },
            (other, false) => other,
        });
    }
    plain
}

/// Reads what `systemctl show` prints of a unit.
fn parse_unit(shown: &str) -> Unit {
    let value = |name: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.filter(|value| !value.is_empty())
    };
    let is_known = !matches!(value("LoadState"), None | Some("not-found"));
    let program = value("ExecStart").and_then(|value| value.split_once("path=")?.1.split_once(" ; argv[]="));
    Unit {
        file: value("FragmentPath").filter(|_| is_known).map(PathBuf::from),
        program: program.map(|(path, _)| PathBuf::from(path)),
        enablement: match value("UnitFileState") {
            Some("enabled" | "enabled-runtime" | "alias") => Enablement::Enabled,
            Some("masked" | "masked-runtime") => Enablement::Masked,
            _ => Enablement::Disabled,
        },
        activity: match value("ActiveState") {
            Some("active" | "reloading") => Activity::Active,
            Some("activating") => Activity::Starting,
            Some("deactivating") => Activity::Stopping,
            Some("failed") => Activity::Failed,
            _ => Activity::Inactive,
        },
        main_pid: value("MainPID").and_then(|pid| pid.parse().ok()).filter(|pid| *pid != 0),
        result: match (value("Result"), value("ExecMainStatus")) {
            (Some("exit-code"), Some(code)) => format!("exit-code {code}"),
            (result, _) => result.unwrap_or_default().to_owned(),
        },
        status_text: value("StatusText").map(str::to_owned),
        variables: value("Environment").unwrap_or_default().to_owned(),
        freshness: if value("NeedDaemonReload") == Some("yes") { Freshness::Changed } else { Freshness::Current },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_program_and_keeps_the_rest() {
        assert_eq!(SERVICE_TEXT.matches(PROGRAM_LINE).count(), 1);
        let made = text(Path::new("/home/a b/100%/groundingd")).unwrap();
        assert!(made.contains("\nExecStart=\"/home/a b/100%%/groundingd\" serve\n"), "{made}");
        assert!(!made.contains(PROGRAM_LINE));
        assert_eq!(made.lines().count(), SERVICE_TEXT.lines().count());
        for refused in ["relative", "/a\"b", "/a'b", "/a\\b", "/a\nb"] {
            let error = text(Path::new(refused)).unwrap_err();
            assert!(
                matches!(&error, ServiceError::Program { program, .. } if program == Path::new(refused)),
                "{error}"
            );
        }
    }

    #[test]
    fn the_managers_variables_are_read_with_their_quotes() {
        let read =
            |line| variable(line).map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()));
        let pair = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        assert_eq!(read("HOME=/home/u"), pair("HOME", "/home/u"));
        assert_eq!(read("A=b=c"), pair("A", "b=c"));
        assert_eq!(read(r"HOME=$'/home/a b\'x\n\\'"), pair("HOME", "/home/a b'x\n\\"));
        assert_eq!(read("no variable"), None);
    }

    #[test]
    fn a_unit_is_read_from_what_show_prints() {
        let unit = parse_unit(
            "MainPID=17\nResult=success\nExecStart={ path=/a b/groundingd ; argv[]=/a b/groundingd serve ; status=0/0 }\n\
             LoadState=loaded\nActiveState=active\nFragmentPath=/h/.config/systemd/user/groundingd.service\n\
             UnitFileState=enabled\nNeedDaemonReload=yes\nStatusText=Serving\nEnvironment=A=b\n",
        );
        assert_eq!(unit.program.as_deref(), Some(Path::new("/a b/groundingd")));
        assert_eq!((unit.enablement, unit.activity), (Enablement::Enabled, Activity::Active));
        assert_eq!((unit.main_pid, unit.freshness), (Some(17), Freshness::Changed));
        assert!(unit.is_installed());
        let absent = parse_unit("MainPID=0\nLoadState=not-found\nActiveState=inactive\nFragmentPath=\nStatusText=\n");
        assert!(!absent.is_installed());
        assert_eq!((absent.main_pid, absent.status_text, absent.activity), (None, None, Activity::Inactive));
    }

    #[test]
    fn a_unit_is_stale_when_it_starts_something_else() {
        use super::super::Staleness;
        let directory = tempfile::tempdir().unwrap();
        let (ours, other) = (directory.path().join("ours"), directory.path().join("other"));
        let link = directory.path().join("link");
        std::fs::write(&ours, "").unwrap();
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        let unit = |program: &Path| {
            let program = program.display();
            parse_unit(&format!(
                "LoadState=loaded\nFragmentPath=/f\nExecStart={{ path={program} ; argv[]={program} }}\n"
            ))
        };
        assert_eq!(unit(&ours).staleness(&ours), None);
        assert_eq!(unit(&link).staleness(&ours), None);
        assert_eq!(unit(&other).staleness(&ours), Some(Staleness::Gone(other.clone())));
        std::fs::write(&other, "").unwrap();
        assert_eq!(unit(&other).staleness(&ours), Some(Staleness::Other(other)));
        assert_eq!(
            parse_unit("LoadState=bad-setting\nFragmentPath=/f\n").staleness(&ours),
            Some(Staleness::Unreadable)
        );
        assert_eq!(parse_unit("LoadState=not-found\n").staleness(&ours), None);
    }

    #[tokio::test]
    async fn without_a_managers_socket_nobody_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let variables = vec![("XDG_RUNTIME_DIR".into(), directory.path().as_os_str().to_owned())];
        let error = Systemd::find(&Environment::of_variables(variables)).await.unwrap_err();
        assert!(
            matches!(&error, NoManager::Absent { why } if why.contains(directory.path().to_str().unwrap())),
            "{error}"
        );
    }
}
