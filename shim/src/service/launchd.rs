//! launchd, asked through `launchctl`, and the property list of the daemon's agent.
//!
//! It owns the list's text. There is no socket activation: a program that moves with each upgrade leaves a socket that
//! nobody answers. launchd gives its agents hardly any PATH, and the checks need the user's, so it is written down. It
//! knows no readiness: who starts the agent has to wait for the daemon's socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::environment::{Environment, GROUNDING_STATE_DIR, find_program};

use super::{
    Activity, Change, Enablement, Freshness, Lingering, NoManager, PATIENCE, PROMPT, ServiceError, Unit, remove_file,
    write_file,
};
use crate::process;

/// The agent's name.
pub const LABEL: &str = "io.github.lannguyensi.groundingd";

/// launchd of the user's graphical session.
#[derive(Debug, Clone)]
pub struct Launchd {
    launchctl: PathBuf,
    home: PathBuf,
    /// The domain of the session, `gui/<uid>`.
    domain: String,
    environment: Environment,
}

impl Launchd {
    /// Finds the user's session and makes sure that it answers.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn find(environment: &Environment) -> Result<Self, NoManager> {
        let absent = |why: &str| NoManager::Absent { why: why.to_owned() };
        let launchctl = find_program("/bin:/usr/bin".as_ref(), "launchctl").ok_or_else(|| absent("no launchctl"))?;
        let home = environment.home().map_err(|error| absent(&error.to_string()))?.to_owned();
        let domain = format!("gui/{}", rustix::process::geteuid().as_raw());
        let launchd = Self { launchctl, home, domain, environment: environment.clone() };
        launchd.ask(&["print", &launchd.domain], PROMPT).await.map_err(NoManager::Silent)?;
        Ok(launchd)
    }

    /// Returns what people call the manager.
    #[must_use]
    pub fn name(&self) -> &'static str {
        "launchd"
    }

    /// Returns the command that shows what the manager knows of the daemon.
    #[must_use]
    pub fn journal_command(&self) -> &'static str {
        "launchctl print gui/$(id -u)/io.github.lannguyensi.groundingd"
    }

    /// Returns where the agent's file belongs.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.home.join("Library/LaunchAgents").join(format!("{LABEL}.plist"))
    }

    /// Returns the text of an agent that starts this program.
    ///
    /// # Errors
    /// When a property list can't name it.
    pub fn text(&self, program: &Path) -> Result<String, ServiceError> {
        text(program, &self.environment)
    }

    /// Returns whether a daemon of the manager would have the state directory of this environment.
    #[must_use]
    pub fn serves_the_same_state(&self, _unit: &Unit) -> bool {
        self.environment.get(GROUNDING_STATE_DIR).is_none()
    }

    /// Returns what the manager knows of the daemon's agent.
    ///
    /// # Errors
    /// When its file can't be read.
    pub async fn unit(&self) -> Result<Unit, ServiceError> {
        let path = self.file();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(ServiceError::Io { action: "read", path, source }),
        };
        // It fails when the agent is not loaded.
        let shown = self.ask(&["print", &self.target()], PROMPT).await.unwrap_or_default();
        Ok(parse(path, text.as_deref(), &shown))
    }

    /// Returns that no unit listens for the daemon.
    ///
    /// # Errors
    /// Never; another manager has one to ask.
    pub async fn socket_unit(&self) -> Result<Unit, ServiceError> {
        Ok(parse(PathBuf::new(), None, ""))
    }

    /// Writes an agent that starts this program. Neither enables nor starts it.
    ///
    /// # Errors
    /// When the file can't be written.
    pub async fn install(&self, program: &Path) -> Result<Change, ServiceError> {
        let change = write_file(&self.file(), &self.text(program)?)?;
        if change == Change::Written {
            // launchd keeps what it read; it fails when the agent was not loaded.
            let _ = self.ask(&["bootout", &self.target()], PATIENCE).await;
        }
        Ok(change)
    }

    /// Has the agent started with the user's sessions from now on.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn enable(&self) -> Result<(), ServiceError> {
        self.ask(&["enable", &self.target()], PATIENCE).await.map(drop)
    }

    /// Takes that back; does not stop it.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn disable(&self) -> Result<(), ServiceError> {
        self.ask(&["disable", &self.target()], PATIENCE).await.map(drop)
    }

    /// Removes the agent's file and has the manager forget it.
    ///
    /// # Errors
    /// When the file can't be removed.
    pub async fn remove(&self) -> Result<Change, ServiceError> {
        // It fails when the agent is not loaded.
        let _ = self.ask(&["bootout", &self.target()], PATIENCE).await;
        remove_file(&self.file())
    }

    /// Starts the daemon; one that runs is left alone. It gets ready after this returned.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn start(&self) -> Result<(), ServiceError> {
        let (target, file) = (self.target(), self.file());
        if self.ask(&["kickstart", &target], PATIENCE).await.is_ok() {
            return Ok(());
        }
        // Not loaded: loading starts it.
        self.ask(&["bootstrap", &self.domain, &file.to_string_lossy()], PATIENCE).await.map(drop)
    }

    /// Does nothing: launchd keeps no count.
    pub async fn forget_failures(&self) {}

    /// Does nothing: nobody listens for the daemon.
    ///
    /// # Errors
    /// Never; another manager has something to stop.
    pub async fn stop_listening(&self) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Ends the daemon, and keeps the manager from starting it again until it is told to.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn stop(&self) -> Result<(), ServiceError> {
        match self.unit().await?.activity {
            Activity::Inactive => Ok(()),
            _ => self.ask(&["bootout", &self.target()], PATIENCE).await.map(drop),
        }
    }

    /// Returns whether the user's services outlive the user's sessions: agents never do.
    pub async fn lingering(&self) -> Lingering {
        Lingering::Off
    }

    fn target(&self) -> String {
        format!("{}/{LABEL}", self.domain)
    }

    async fn ask(&self, arguments: &[&str], limit: Duration) -> Result<String, ServiceError> {
        let mut command = process::plain(&self.launchctl);
        command.args(arguments).current_dir("/");
        match tokio::time::timeout(limit, process::run(command)).await {
            Ok(output) => Ok(output?),
            Err(_) => Err(ServiceError::TimedOut { command: format!("launchctl {}", arguments.join(" ")), limit }),
        }
    }
}

fn text(program: &Path, environment: &Environment) -> Result<String, ServiceError> {
    let refused = |problem| ServiceError::Program { program: program.to_owned(), problem };
    let path = program.to_str().ok_or_else(|| refused("is not UTF-8"))?;
    if !program.is_absolute() {
        return Err(refused("is not absolute"));
    }
    if path.chars().any(char::is_control) {
        return Err(refused("holds a control character"));
    }
    let path_value = environment.get("PATH").map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    let (path, path_value) = (escaped(path), escaped(&path_value));
    Ok(format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{LABEL}</string>
    <key>ProgramArguments</key>
    <array>
        <string>{path}</string>
        <string>serve</string>
    </array>
    <key>EnvironmentVariables</key>
    <dict>
        <key>PATH</key>
        <string>{path_value}</string>
    </dict>
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <dict>
        <key>Crashed</key>
        <true/>
    </dict>
    <key>AbandonProcessGroup</key>
    <true/>
    <key>ExitTimeOut</key>
    <integer>20</integer>
</dict>
</plist>
"#
    ))
}

fn escaped(text: &str) -> String {
    let kept = text.chars().filter(|character| !character.is_control()).collect::<String>();
    kept.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Reads the agent's file, which `text` made, and what `launchctl print` says.
fn parse(path: PathBuf, text: Option<&str>, shown: &str) -> Unit {
    let arguments = text.and_then(|text| text.split_once("<key>ProgramArguments</key>"));
    let program = arguments.and_then(|(_, rest)| rest.split_once("<string>")?.1.split_once("</string>"));
    let program =
        program.map(|(path, _)| PathBuf::from(path.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")));
    let value = |name: &str| shown.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix("= "));
    Unit {
        file: text.map(|_| path),
        program,
        enablement: if text.is_some() { Enablement::Enabled } else { Enablement::Disabled },
        activity: match value("state") {
            Some("running") => Activity::Active,
            Some("spawn scheduled") => Activity::Starting,
            _ => Activity::Inactive,
        },
        main_pid: value("pid").and_then(|pid| pid.parse().ok()),
        result: value("last exit code").unwrap_or_default().to_owned(),
        status_text: None,
        variables: String::new(),
        freshness: Freshness::Current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_the_program_and_the_path() {
        let environment = Environment::of_variables(vec![("PATH".into(), "/usr/bin:/opt/a & b".into())]);
        let program = Path::new("/Users/a <b>/groundingd");
        let made = text(program, &environment).unwrap();
        assert!(
            made.contains("<string>/Users/a &lt;b&gt;/groundingd</string>\n        <string>serve</string>"),
            "{made}"
        );
        assert!(made.contains("<string>/usr/bin:/opt/a &amp; b</string>"), "{made}");
        assert!(made.contains("<key>Crashed</key>\n        <true/>") && !made.contains("Sockets"), "{made}");
        let unit = parse("/f".into(), Some(&made), "\tstate = running\n\tpid = 17\n");
        assert_eq!(unit.program.as_deref(), Some(program));
        assert_eq!((unit.activity, unit.main_pid), (Activity::Active, Some(17)));
        assert!(matches!(text(Path::new("groundingd"), &environment), Err(ServiceError::Program { .. })));
        assert!(!parse("/f".into(), None, "").is_installed());
    }
}
