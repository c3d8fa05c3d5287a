//! The plan of a session: what a keyword decides (SPEC 3).
//!
//! Pure functions; the words and their order are the contract of the session file.

use grounding_proto::session::Guardrail;

/// The phases, in the order in which a session walks them.
pub(super) const PHASES: [&str; 7] = [
    "scope-resolution",
    "doc-reading",
    "playbook-loading",
    "runtime-inspection",
    "evidence-collection",
    "claim-evaluation",
    COMPLETE,
];

/// The phase that ends a session.
pub(super) const COMPLETE: &str = "complete";

/// A step of the plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) tool: &'static str,
    pub(super) description: &'static str,
    pub(super) mandatory: bool,
    pub(super) phase: &'static str,
}

const fn step(tool: &'static str, phase: &'static str, description: &'static str) -> Step {
    Step { tool, description, mandatory: true, phase }
}

/// Returns the steps for a keyword.
pub(super) fn steps(keyword: &str) -> Vec<Step> {
    let mut steps = vec![
        step("domain-router", PHASES[0], "Decide which repository, service and component the problem belongs to."),
        step("readme-first-resolver", PHASES[1], "Read the README and the documents of that part before any theory."),
        step("debug-playbook-engine", PHASES[2], "Look for a known playbook for this kind of problem and follow it."),
    ];
    if mentions(keyword, &["monitor", "agent", "service", "server", "gateway"]) {
        steps.push(step(
            "runtime-reality-checker",
            PHASES[3],
            "Look at what really runs: processes, versions, configuration in force, ports and health.",
        ));
    }
    steps.extend([
        step("evidence-ledger", PHASES[4], "Record facts, unknowns and ruled-out alternatives with ledger_add."),
        step("claim-gate", PHASES[5], "Put the conclusion through claim_evaluate_from_session before stating it."),
        Step {
            tool: "hypothesis-tracker",
            description: "Keep possible causes with hypothesis_record, and support or reject each by evidence.",
            mandatory: false,
            phase: PHASES[4],
        },
    ]);
    steps
}

/// Returns the guardrails for a keyword, each once.
pub(super) fn guardrails(keyword: &str) -> Vec<Guardrail> {
    let mut guardrails = vec![Guardrail::NoRootCauseBeforeReadme, Guardrail::NoStepSkipping];
    if mentions(keyword, &["token", "auth", "config", "monitor", "dashboard", "agent"]) {
        guardrails.push(Guardrail::NoTokenClaimBeforeConfigCheck);
    }
    if mentions(keyword, &["monitor", "dashboard", "agent"]) {
        guardrails.push(Guardrail::NoNetworkClaimBeforeProcessCheck);
    }
    // A word such as arch or design asks for the first of these two, which no keyword is without.
    for always in [Guardrail::NoArchitectureClaimBeforeDocs, Guardrail::NoNetworkClaimBeforeProcessCheck] {
        if !guardrails.contains(&always) {
            guardrails.push(always);
        }
    }
    guardrails
}

/// Returns the scope a keyword names: lower case, with each run outside `a-z0-9-` replaced by `-`.
pub(super) fn scope(keyword: &str) -> String {
    dashed(keyword, |character| character == '-')
}

/// Returns the middle of a session's id, or nothing when the keyword holds no letter a-z and no digit.
pub(super) fn slug(keyword: &str) -> Option<String> {
    let dashed = dashed(keyword, |_| false);
    dashed.contains(|character| character != '-').then(|| dashed.chars().take(16).collect())
}

/// Lower-cases a text and replaces each run of characters outside `a-z0-9` that are not `kept` by one dash.
fn dashed(text: &str, kept: impl Fn(char) -> bool) -> String {
    let mut dashed = String::new();
    let mut in_run = false;
    for character in text.to_lowercase().chars() {
        if character.is_ascii_lowercase() || character.is_ascii_digit() || kept(character) {
            dashed.push(character);
            in_run = false;
        } else if !in_run {
            dashed.push('-');
            in_run = true;
        }
    }
    dashed
}

fn mentions(keyword: &str, words: &[&str]) -> bool {
    let keyword = keyword.to_lowercase();
    words.iter().any(|word| keyword.contains(word))
}
