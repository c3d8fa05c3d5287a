//! audit: known vulnerabilities of dependencies, by what the repository holds.
//!
//! A report is believed, whatever the exit code says; without a report nothing was learned, and the check is a skip.

use serde_json::Value;

use super::command::Ended;
use super::project::{Ecosystem, Manager, Node, Project};
use super::report::Kind;
use super::step::{Finding, Judge, Planned, Step, by_exit};

const KIND: Kind = Kind::Audit;

/// Plans the checks of one ecosystem.
#[must_use]
pub fn plan(project: &Project<'_>, ecosystem: &Ecosystem) -> Vec<Planned> {
    match ecosystem {
        Ecosystem::Cargo => vec![cargo(project)],
        Ecosystem::Node(node) => vec![node_packages(project, node)],
        Ecosystem::Python => python(project).into_iter().collect(),
        Ecosystem::Go => vec![ask(project, "govulncheck", "govulncheck", "govulncheck ./...", govulncheck)],
    }
}

/// Plans a command that asks a registry.
fn ask(project: &Project<'_>, name: &str, tool: &str, command: &str, judge: Judge) -> Planned {
    match project.plan_judged(KIND, name, tool, command, judge) {
        Planned::Run(step) => Planned::Run(step.asking_registry()),
        skipped @ Planned::Skip(_) => skipped,
    }
}

fn cargo(project: &Project<'_>) -> Planned {
    if project.has("deny.toml") && project.finds("cargo-deny") {
        return ask(project, "cargo-deny", "cargo-deny", "cargo deny --format json check", cargo_deny);
    }
    ask(project, "cargo-audit", "cargo-audit", "cargo audit --json", cargo_audit)
}

fn node_packages(project: &Project<'_>, node: &Node) -> Planned {
    let program = node.manager.program();
    let (command, judge): (_, Judge) = match node.manager {
        Manager::Npm => ("npm audit --json --fetch-retries=0 --fetch-timeout=30000", npm_audit),
        Manager::Pnpm => ("pnpm audit --json", npm_audit),
        Manager::Yarn if project.has(".yarnrc.yml") => {
            ("yarn npm audit --all --recursive --severity high --json", yarn_berry)
        }
        Manager::Yarn => ("yarn audit --json --level high", yarn_classic),
        Manager::Bun => ("bun audit --json", bun_audit),
    };
    ask(project, &format!("{program}-audit"), program, command, judge)
}

fn python(project: &Project<'_>) -> Option<Planned> {
    let what = if project.has("requirements.txt") {
        "-r requirements.txt"
    } else if project.has("pyproject.toml") {
        "."
    } else {
        return None;
    };
    Some(match project.python_tool("pip-audit") {
        Some(tool) => {
            let command = format!("{tool} --format json --progress-spinner off {what}");
            Planned::Run(Step::new("pip-audit", KIND, command).judged(pip_audit).asking_registry())
        }
        None => Planned::Skip(project.missing(KIND, "pip-audit", "pip-audit")),
    })
}

fn no_report(code: i32) -> Finding {
    Finding::Skip(format!("gave no report (exit code {code}); does the registry answer?"))
}

fn vulnerabilities(count: u64, what: &str) -> Finding {
    match count {
        0 => Finding::Pass,
        1 => Finding::Fail(format!("found 1 {what}")),
        count => Finding::Fail(format!("found {count} {what}")),
    }
}

fn json(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

/// The lines that are JSON.
fn json_lines(bytes: &[u8]) -> Vec<Value> {
    bytes.split(|byte| *byte == b'\n').filter_map(json).collect()
}

fn npm_audit(ended: &Ended, code: i32) -> Finding {
    let Some(report) = json(&ended.stdout) else { return no_report(code) };
    if let Some(found) = report.pointer("/metadata/vulnerabilities") {
        let count = |severity: &str| found.get(severity).and_then(Value::as_u64);
        return match (count("high"), count("critical")) {
            (None, None) => no_report(code),
            (high, critical) => {
                let total = high.unwrap_or(0) + critical.unwrap_or(0);
                vulnerabilities(total, "high or critical vulnerabilities in dependencies")
            }
        };
    }
    match report.pointer("/error/code").and_then(Value::as_str) {
        // What the repository lacks is not the registry's silence.
        Some(reason @ ("ENOLOCK" | "ERR_PNPM_AUDIT_NO_LOCKFILE")) => {
            Finding::Warn(format!("could not look: there is no lock file ({reason})"))
        }
        _ => no_report(code),
    }
}

/// Exit codes are a sum; 8 and 16 stand for high and critical.
fn yarn_classic(ended: &Ended, code: i32) -> Finding {
    let summary = json_lines(&ended.stdout).into_iter().find(|line| line["type"] == "auditSummary");
    match summary {
        Some(summary) => {
            let count = |severity: &str| summary["data"]["vulnerabilities"][severity].as_u64().unwrap_or(0);
            vulnerabilities(count("high") + count("critical"), "high or critical vulnerabilities in dependencies")
        }
        None => no_report(code),
    }
}

fn yarn_berry(ended: &Ended, code: i32) -> Finding {
    let advisories = json_lines(&ended.stdout).len() as u64;
    match (code, advisories) {
        (0, _) => Finding::Pass,
        (1, 1..) => vulnerabilities(advisories, "high or critical vulnerabilities in dependencies"),
        (code, _) => no_report(code),
    }
}

fn bun_audit(ended: &Ended, code: i32) -> Finding {
    let Some(Value::Object(packages)) = json(&ended.stdout) else { return no_report(code) };
    let advisories = packages.values().filter_map(Value::as_array).flatten();
    let severe = advisories.filter(|it| it["severity"] == "high" || it["severity"] == "critical");
    vulnerabilities(severe.count() as u64, "high or critical vulnerabilities in dependencies")
}

fn cargo_audit(ended: &Ended, code: i32) -> Finding {
    let report = json(&ended.stdout);
    match report.as_ref().and_then(|report| report.pointer("/vulnerabilities/count")).and_then(Value::as_u64) {
        Some(count) => vulnerabilities(count, "vulnerabilities in dependencies"),
        None => no_report(code),
    }
}

fn cargo_deny(ended: &Ended, code: i32) -> Finding {
    let errors = json_lines(&ended.stderr);
    let errors = errors.iter().filter(|line| line["type"] == "diagnostic" && line["fields"]["severity"] == "error");
    match (code, errors.count() as u64) {
        (0, _) => Finding::Pass,
        (code, 0) => no_report(code),
        (_, count) => vulnerabilities(count, "things that deny.toml denies"),
    }
}

fn pip_audit(ended: &Ended, code: i32) -> Finding {
    let report = json(&ended.stdout);
    let Some(dependencies) = report.as_ref().and_then(|it| it["dependencies"].as_array()) else {
        return no_report(code);
    };
    let found = dependencies.iter().filter_map(|dependency| dependency["vulns"].as_array()).map(Vec::len);
    vulnerabilities(found.sum::<usize>() as u64, "vulnerabilities in dependencies")
}

fn govulncheck(ended: &Ended, code: i32) -> Finding {
    match code {
        3 => Finding::Fail("found vulnerabilities that the code reaches".to_owned()),
        0 => by_exit(ended, code),
        code => no_report(code),
    }
}

#[cfg(test)]
mod tests {
    use super::super::project::tests::{commands, with_project};
    use super::*;

    #[test]
    fn audits_follow_what_the_repository_holds() {
        let planned = |files: &[(&str, &str)], programs: &[&str]| {
            with_project(files, programs, |project| {
                commands(&project.ecosystems().iter().flat_map(|it| plan(project, it)).collect::<Vec<_>>())
            })
        };
        let cargo = ("Cargo.toml", "");
        assert_eq!(planned(&[cargo], &[]), ["-cargo-audit"]);
        assert_eq!(planned(&[cargo], &["cargo-audit", "cargo-deny"]), ["cargo audit --json"]);
        let deny = [cargo, ("deny.toml", "")];
        assert_eq!(planned(&deny, &["cargo-deny", "cargo-audit"]), ["cargo deny --format json check"]);
        assert_eq!(planned(&[("go.mod", "")], &["govulncheck"]), ["govulncheck ./..."]);
        assert_eq!(planned(&[("requirements.txt", "")], &[]), ["-pip-audit"]);
        assert_eq!(planned(&[("package.json", "{}"), ("pnpm-lock.yaml", "")], &["pnpm"]), ["pnpm audit --json"]);
    }

    #[test]
    fn reports_are_believed_and_silence_is_a_skip() {
        enum Expected {
            Pass,
            Fail,
            Warn,
            Skip,
        }
        use Expected::{Fail, Pass, Skip, Warn};
        let cases: &[(Judge, i32, &str, Expected)] = &[
            (npm_audit, 0, r#"{"metadata":{"vulnerabilities":{"high":0,"critical":0,"low":3}}}"#, Pass),
            (npm_audit, 1, r#"{"metadata":{"vulnerabilities":{"high":0,"critical":0,"low":3}}}"#, Pass),
            (npm_audit, 1, r#"{"metadata":{"vulnerabilities":{"high":1,"critical":0}}}"#, Fail),
            (npm_audit, 1, r#"{"metadata":{"vulnerabilities":{"critical":2}}}"#, Fail),
            (npm_audit, 1, r#"{"metadata":{"vulnerabilities":{}}}"#, Skip),
            (npm_audit, 1, r#"{"error":{"code":"ENOLOCK"}}"#, Warn),
            (npm_audit, 1, r#"{"error":{"code":"ENOTFOUND"}}"#, Skip),
            (npm_audit, 1, r#"{"metadata":{"vuln"#, Skip),
            (npm_audit, 0, "", Skip),
            (yarn_classic, 8, r#"{"type":"auditSummary","data":{"vulnerabilities":{"high":1}}}"#, Fail),
            (yarn_classic, 2, r#"{"type":"auditSummary","data":{"vulnerabilities":{"low":1}}}"#, Pass),
            (yarn_classic, 1, "error", Skip),
            (yarn_berry, 1, r#"{"value":"x"}"#, Fail),
            (yarn_berry, 1, "error", Skip),
            (yarn_berry, 0, "", Pass),
            (bun_audit, 1, r#"{"a":[{"severity":"high"}]}"#, Fail),
            (bun_audit, 1, r#"{"a":[{"severity":"low"}]}"#, Pass),
            (bun_audit, 0, "{}", Pass),
            (bun_audit, 1, "error", Skip),
            (cargo_audit, 1, r#"{"vulnerabilities":{"found":true,"count":1}}"#, Fail),
            (cargo_audit, 0, r#"{"vulnerabilities":{"found":false,"count":0}}"#, Pass),
            (cargo_audit, 1, "error: couldn't fetch advisory database", Skip),
            (pip_audit, 1, r#"{"dependencies":[{"name":"x","vulns":[{"id":"y"}]}]}"#, Fail),
            (pip_audit, 0, r#"{"dependencies":[{"name":"x","vulns":[]}]}"#, Pass),
            (pip_audit, 1, "", Skip),
            (govulncheck, 3, "", Fail),
            (govulncheck, 0, "", Pass),
            (govulncheck, 1, "", Skip),
        ];
        for (index, (judge, code, stdout, expected)) in cases.iter().enumerate() {
            let ended = Ended { stdout: stdout.as_bytes().to_vec(), ..Ended::default() };
            let finding = judge(&ended, *code);
            let holds = match expected {
                Pass => finding == Finding::Pass,
                Fail => matches!(finding, Finding::Fail(_)),
                Warn => matches!(finding, Finding::Warn(_)),
                Skip => matches!(finding, Finding::Skip(_)),
            };
            assert!(holds, "case {index}: {finding:?}");
        }
        let denied = br#"{"type":"diagnostic","fields":{"severity":"error"}}"#.to_vec();
        let ended = Ended { stderr: denied, ..Ended::default() };
        assert!(matches!(cargo_deny(&ended, 1), Finding::Fail(_)));
        assert!(matches!(cargo_deny(&Ended::default(), 1), Finding::Skip(_)));
    }
}
