//! Which preflight an evaluation will use, said by the rules of the daemon: `SOLUTION_PREFLIGHT_BIN`, else `preflight` on
//! PATH, else the built-in checks. Runs nothing.

use std::path::Path;

use grounding_proto::environment::{Environment, SOLUTION_PREFLIGHT_BIN, find_program, is_executable};

/// Returns a sentence that says which checks run for a client in this environment.
#[must_use]
pub fn said(environment: &Environment) -> String {
    let on_path = |name: &str| find_program(environment.get("PATH")?, name);
    let Some(named) = environment.get(SOLUTION_PREFLIGHT_BIN) else {
        return match on_path("preflight") {
            Some(program) => format!("Solutions are checked by {}, found on PATH.", program.display()),
            None => "Solutions are checked by the built-in checks: there is no `preflight` on PATH.".to_owned(),
        };
    };
    if named == "builtin" {
        return format!("Solutions are checked by the built-in checks, as {SOLUTION_PREFLIGHT_BIN} says.");
    }
    let bare = Path::new(named).components().count() == 1 && !named.as_encoded_bytes().contains(&b'/');
    let found = if bare { named.to_str().and_then(on_path) } else { None };
    let program = found.unwrap_or_else(|| named.into());
    if !program.is_absolute() {
        return format!(
            "Solutions are checked by {}, looked up in the directory of each evaluation, as {SOLUTION_PREFLIGHT_BIN} says.",
            program.display()
        );
    }
    if is_executable(&program) {
        return format!("Solutions are checked by {}, as {SOLUTION_PREFLIGHT_BIN} says.", program.display());
    }
    format!(
        "No solution can be checked: {SOLUTION_PREFLIGHT_BIN} names {}, which is no executable file; correct or unset it.",
        program.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_the_daemon() {
        let said = |pairs: &[(&str, &str)]| {
            super::said(&Environment::of_variables(
                pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ))
        };
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().to_str().unwrap();
        std::os::unix::fs::symlink("/bin/sh", directory.path().join("preflight")).unwrap();
        assert!(said(&[("PATH", "/nowhere")]).contains("built-in"));
        assert!(said(&[("PATH", bin)]).contains(&format!("{bin}/preflight, found on PATH")));
        for (named, words) in [
            ("builtin", "built-in checks, as"),
            ("preflight", &*format!("{bin}/preflight, as")),
            ("/bin/sh", "/bin/sh, as"),
            ("./preflight", "each evaluation"),
            ("/nowhere/preflight", "No solution"),
        ] {
            let text = said(&[("PATH", bin), (SOLUTION_PREFLIGHT_BIN, named)]);
            assert!(text.contains(words) && text.contains(SOLUTION_PREFLIGHT_BIN), "{text}");
        }
    }
}
