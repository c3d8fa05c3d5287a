//! tdd: a changed source has a test whose name says that it is its counterpart.
//!
//! Judges names alone: it says nothing about what a test covers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::files::Files;
use super::glob::PathList;
use super::report::{Kind, Outcome, Status};

const NAME: &str = "tdd-test-counterpart";
/// What it weighs when there is nothing to judge.
const LEAST_WEIGHT: f64 = 0.05;
/// Most sources that are listed.
const MAX_LISTED: usize = 20;

/// Ends of the names of sources that usually have tests of their own.
const SOURCES: &[&str] = &[
    "c", "cc", "cpp", "cs", "go", "java", "js", "jsx", "kt", "mjs", "php", "py", "rb", "rs", "scala", "swift", "ts",
    "tsx",
];

/// Names that stand for wiring, not for code with tests of its own.
const WIRING: &[&str] = &["__init__", "build", "conftest", "index", "lib", "main", "mod", "setup"];

/// Checks the changed sources. `holds_tests` tells whether a source holds tests itself, as Rust's do.
#[must_use]
pub fn check(files: &Files, exceptions: &PathList, holds_tests: impl Fn(&Path) -> bool) -> Outcome {
    let changed = files.changed.as_ref().unwrap_or(&files.recent);
    let to_judge = |path: &&PathBuf| is_source(&path.to_string_lossy()) && !exceptions.holds(path);
    let sources: Vec<_> = changed.iter().filter(to_judge).collect();
    if sources.is_empty() {
        let mut outcome = Outcome::new(NAME, Kind::Tdd, Status::Pass, Some("no changed source to judge".to_owned()));
        outcome.check.confidence_contribution = LEAST_WEIGHT;
        return outcome;
    }
    let tested: HashSet<_> = files.all.iter().filter_map(|path| tested_stem(&path.to_string_lossy())).collect();
    let alone =
        |path: &&&PathBuf| !tested.contains(&stem(&path.to_string_lossy()).to_lowercase()) && !holds_tests(path);
    let lacking: Vec<_> = sources.iter().filter(alone).collect();
    if lacking.is_empty() {
        return Outcome::pass(NAME, Kind::Tdd);
    }
    let mut details: Vec<_> = lacking.iter().take(MAX_LISTED).map(|path| path.display().to_string()).collect();
    if lacking.len() > MAX_LISTED {
        details.push(format!("and {} more", lacking.len() - MAX_LISTED));
    }
    let what = if lacking.len() == 1 {
        "1 changed source has".to_owned()
    } else {
        format!("{} changed sources have", lacking.len())
    };
    let message = format!("{what} no test that is named after it");
    Outcome::new(NAME, Kind::Tdd, Status::Warn, Some(message)).with_details(details)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The name up to its last dot.
fn stem(path: &str) -> &str {
    let name = file_name(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

fn has_source_end(path: &str) -> bool {
    file_name(path).rsplit_once('.').is_some_and(|(_, end)| SOURCES.contains(&end))
}

fn is_source(path: &str) -> bool {
    let stem = stem(path);
    let aside =
        path.split('/').any(|part| matches!(part, "examples" | "migrations" | "vendor" | "node_modules" | "benches"));
    has_source_end(path)
        && !aside
        && !is_test(path)
        && !WIRING.contains(&stem)
        && !stem.ends_with(".d")
        && !stem.ends_with(".config")
        && !stem.starts_with('.')
}

fn is_test(path: &str) -> bool {
    let directory =
        |part| matches!(part, "test" | "tests" | "__tests__" | "spec" | "specs" | "e2e" | "testdata" | "fixtures");
    path.rsplit('/').skip(1).any(directory) || test_name(stem(path)).is_some()
}

/// Returns which stem a test is named after, in lower case.
fn tested_stem(path: &str) -> Option<String> {
    if !has_source_end(path) || !is_test(path) {
        return None;
    }
    let stem = stem(path);
    // A test in a directory of tests may bear the source's name as it is.
    Some(test_name(stem).unwrap_or(stem).to_lowercase())
}

fn test_name(stem: &str) -> Option<&str> {
    const ENDS: &[&str] = &[".test", ".spec", "_test", "_tests", "_spec", "-test", "-spec", "Tests", "Test", "Spec"];
    let by_end = ENDS.iter().find_map(|end| stem.strip_suffix(end)).filter(|rest| !rest.is_empty());
    by_end.or_else(|| stem.strip_prefix("test_").filter(|rest| !rest.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(all: &[&str], changed: &[&str], exceptions: &[&str]) -> Outcome {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let files = Files { all: paths(all), changed: Some(paths(changed)), ..Files::default() };
        check(&files, &PathList::parse(&owned(exceptions)).0, |path| path == Path::new("src/inside.rs"))
    }

    #[test]
    fn counterparts_are_found_by_name() {
        for (source, test) in [
            ("src/a.ts", "src/a.test.ts"),
            ("src/a.ts", "src/__tests__/a.ts"),
            ("src/b.tsx", "e2e/b.spec.ts"),
            ("pkg/c.py", "tests/test_c.py"),
            ("pkg/d.go", "pkg/d_test.go"),
            ("src/main/java/Cart.java", "src/test/java/CartTest.java"),
            ("lib/e.rb", "spec/e_spec.rb"),
            ("src/f.rs", "tests/f.rs"),
        ] {
            assert_eq!(checked(&[source, test], &[source], &[]).check.status, Status::Pass, "{source} {test}");
            let alone = checked(&[source], &[source], &[]);
            assert_eq!(alone.check.details, [source], "{source}");
        }
    }

    #[test]
    fn what_needs_no_test_is_passed_over() {
        for path in
            ["README.md", "src/index.ts", "types/a.d.ts", "vite.config.ts", "tests/a.py", "src/mod.rs", "a.test.js"]
        {
            let outcome = checked(&[path], &[path], &[]);
            assert!((outcome.check.confidence_contribution - LEAST_WEIGHT).abs() < 1e-9, "{path}: {outcome:?}");
        }
        assert_eq!(checked(&["gen/a.ts"], &["gen/a.ts"], &["gen/**"]).check.status, Status::Pass);
        let inside = checked(&["src/inside.rs"], &["src/inside.rs"], &[]);
        assert_eq!((inside.check.status, inside.check.confidence_contribution > 0.09), (Status::Pass, true));
    }
}
