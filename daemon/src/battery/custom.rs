//! custom: what the repository adds, and its own commands in place of the detected ones.

use super::configuration::{Configuration, CustomCheck, FILE};
use super::project::Project;
use super::report::Kind;
use super::step::{Planned, Step};

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
    Some(project.plan(kind, &format!("make-{target}"), "make", format!("make {target}")))
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
}
