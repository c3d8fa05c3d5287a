//! custom: what the repository adds, and its own commands in place of the detected ones.

use super::command::Ended;
use super::configuration::{Configuration, CustomCheck, FILE};
use super::project::Project;
use super::report::{Kind, Outcome};
use super::step::{Finding, Planned, Step, by_exit};

/// Runs all of a target whatever the environment asks of make, such as to run nothing or to go on after errors. What it
/// says of a target without anything to do is read: neither its depth nor a language may change the words.
const MAKE: &str = "unset MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKELEVEL; LANGUAGE=C make -B";

/// Plans the custom checks.
#[must_use]
pub fn plan(configuration: &Configuration) -> Vec<Planned> {
    let step = |check: &CustomCheck| Step::new(&check.name, Kind::Custom, &check.command).failing_as(check.severity);
    configuration.custom_checks.iter().map(step).map(Planned::Run).collect()
}

/// Plans the commands that the configuration names for a kind; nothing when it names none.
#[must_use]
pub fn configured(configuration: &Configuration, kind: Kind) -> Option<Vec<Planned>> {
    let commands = configuration.commands.get(&kind)?;
    let step = |(index, command): (usize, &String)| Step::new(format!("{}:{}", kind.word(), index + 1), kind, command);
    Some(commands.iter().enumerate().map(step).map(Planned::Run).collect())
}

/// Plans a Make target of the kind's name, when there is one.
#[must_use]
pub fn make_target(project: &Project<'_>, kind: Kind) -> Option<Planned> {
    let target = kind.word();
    let makefile = ["GNUmakefile", "makefile", "Makefile"].into_iter().find_map(|name| project.read(name))?;
    let declares = |line: &str| {
        let (targets, rest) = line.split_once(':')?;
        let rule = !line.starts_with([' ', '\t', '#', '.']) && !rest.starts_with('=') && !targets.contains('=');
        (rule && targets.split_whitespace().any(|it| it == target)).then_some(())
    };
    makefile.lines().find_map(declares)?;
    Some(project.plan_judged(kind, &format!("make-{target}"), "make", format!("{MAKE} {target}"), make))
}

/// A file of the target's name that is newer than what it is made of says nothing about the code.
fn make(ended: &Ended, code: i32) -> Finding {
    let idle = |line: &str| {
        let said = line.strip_prefix("make: ")?;
        (said.starts_with("Nothing to be done for ") || said.ends_with(" is up to date.")).then(|| said.to_owned())
    };
    let stdout = String::from_utf8_lossy(&ended.stdout);
    match by_exit(ended, code) {
        Finding::Pass => {
            stdout.lines().find_map(idle).map_or(Finding::Pass, |said| Finding::Idle(format!("ran nothing: {said}")))
        }
        finding => finding,
    }
}

/// Returns the check that stands for an empty list of commands where there is something to replace.
#[must_use]
pub fn replaced_by_nothing(kind: Kind) -> Outcome {
    let word = kind.word();
    let why = format!(
        "`commands.{word}` in {FILE} is an empty list, which replaces the detected {word} command by nothing; \
         `checks.{word}: false` is the way to switch it off"
    );
    Outcome::skip(word, kind, why).blocking_by_its_message()
}

/// Returns the sentence for a kind that nothing is known for.
#[must_use]
pub fn nothing_known(kind: Kind) -> String {
    let word = kind.word();
    format!("no {word} command is known for this repository; name it under `commands.{word}` in {FILE}")
}

#[cfg(test)]
mod tests {
    use super::super::project::tests::with_project;
    use super::*;

    #[test]
    fn make_targets_are_rules_and_nothing_else() {
        let found = |makefile: &str| {
            with_project(&[("Makefile", makefile)], &["make"], |project| make_target(project, Kind::Test).is_some())
        };
        for makefile in ["test:\n\tx\n", "all test: build\n\tx\n", "lint:\n\tx\n\ntest : lint\n"] {
            assert!(found(makefile), "{makefile}");
        }
        for makefile in ["", "tests:\n", "test := x\n", "# test:\n", "\ttest: x\n", ".PHONY: test\n", "test = a:b\n"] {
            assert!(!found(makefile), "{makefile}");
        }
        with_project(&[("Makefile", "lint:\n")], &[], |project| {
            assert!(matches!(make_target(project, Kind::Lint), Some(Planned::Skip(_))));
        });
    }

    #[test]
    fn a_target_with_nothing_to_do_is_no_pass() {
        let made = |stdout: &str, code| make(&Ended { stdout: stdout.as_bytes().to_vec(), ..Ended::default() }, code);
        assert_eq!(made("cc\nmake[1]: Nothing to be done for 'all'.\nall fine\n", 0), Finding::Pass);
        for said in ["make: 'test' is up to date.\n", "make: Nothing to be done for 'test'.\n"] {
            assert!(matches!(made(said, 0), Finding::Idle(_)), "{said}");
            assert!(matches!(made(said, 2), Finding::Fail(_)), "{said}");
        }
    }

    #[tokio::test]
    async fn make_runs_all_of_a_target_whatever_its_environment_says() {
        use crate::process::ClientEnvironment;
        let run = |makefile: &'static str, made: bool| async move {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("Makefile"), makefile).unwrap();
            if made {
                std::fs::write(dir.path().join("test"), "").unwrap();
            }
            let variables = [("MAKEFLAGS", "n"), ("GNUMAKEFLAGS", "-i"), ("MAKELEVEL", "3"), ("LANGUAGE", "de")];
            let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
            let variables = variables.map(|(name, value)| (name.into(), value.into()));
            let environment = ClientEnvironment::new(variables.into_iter().chain([path]));
            let (root, files) = (dir.path(), Vec::new());
            let project = Project { directory: root, root, environment: &environment, files: &files };
            let Some(Planned::Run(step)) = make_target(&project, Kind::Test) else { panic!("no make") };
            let mut shell = crate::process::command("/bin/sh".as_ref(), &environment, root);
            let output = shell.args(["-c", &step.command]).output().await.unwrap();
            make(&Ended { stdout: output.stdout, ..Ended::default() }, output.status.code().unwrap())
        };
        for made in [false, true] {
            assert_eq!(run("test:\n\t@true\n", made).await, Finding::Pass);
            assert!(matches!(run("test:\n\t@false\n", made).await, Finding::Fail(_)));
            assert!(matches!(run("test:\n", made).await, Finding::Idle(_)));
        }
    }
}
