//! What happens in a demonstration, step by step, and what each step must show.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::wait;
use super::DemoError;
use super::host::Host;
use super::stage::Stage;
use crate::output;

/// The id that is evaluated.
const ID: &str = "demo-greeting";
/// More advances than a session has phases.
const MAX_ADVANCES: usize = 10;
/// How long the checks may take.
const CHECKS: Duration = Duration::from_secs(180);
/// How much of an unexpected answer is shown, in characters.
const SHOWN: usize = 800;

/// Plays the whole script.
///
/// # Errors
/// At the first surprise.
pub(super) async fn play(stage: &Stage, host: &mut Host) -> Result<(), DemoError> {
    heading("A host opens the server")?;
    open(host).await?;
    heading("A debug session: evidence before claims")?;
    let session = debug(host).await?;
    heading("What memory says, checked against the repository")?;
    remember(host).await?;
    heading("Done is earned: real checks, a signed verdict, a gate")?;
    evaluate(stage, host).await?;
    gate(stage, host).await?;
    let summary = Step::begin("ledger_summary");
    let ledger = host.tool("ledger_summary", json!({ "sessionId": session })).await?;
    summary.expect("one fact and one rejected alternative", &ledger, |ledger| {
        ledger["counts"]["facts"] == 1 && ledger["counts"]["rejected"] == 1
    })?;
    summary.end("1 fact, 1 rejected alternative, all on disk")
}

async fn open(host: &mut Host) -> Result<(), DemoError> {
    let step = Step::begin("initialize");
    let client = json!({ "name": "groundingctl-demo", "version": crate::context::VERSION });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let answer = host.request("initialize", params).await?;
    step.expect("the server grounding-mcp", &answer, |answer| answer["serverInfo"]["name"] == "grounding-mcp")?;
    host.notify("notifications/initialized").await?;
    step.end(&format!("grounding-mcp {}", text(&answer["serverInfo"]["version"])))?;

    let step = Step::begin("tools/list");
    let answer = host.request("tools/list", json!({})).await?;
    step.expect("20 tools", &answer, |answer| answer["tools"].as_array().is_some_and(|tools| tools.len() == 20))?;
    step.end("20 tools")
}

async fn debug(host: &mut Host) -> Result<String, DemoError> {
    let step = Step::begin("grounding_start");
    let problem = "Visitors are greeted with \"Hello, !\" since the last release.";
    let answer = host.tool("grounding_start", json!({ "keyword": "greeting-service", "problem": problem })).await?;
    step.expect("a session", &answer, |answer| answer["sessionId"].is_string())?;
    let session = text(&answer["sessionId"]).to_owned();
    step.end(&format!("session {session}, phase {}", text(&answer["currentPhase"])))?;

    let step = Step::begin("ledger_add (fact)");
    let fact = json!({ "sessionId": session, "type": "fact", "confidence": "high", "source": "src/greeting.sh:4",
        "content": "greet_visitor puts the name it is given into the greeting, whatever it is." });
    let answer = host.tool("ledger_add", fact).await?;
    step.expect("the stored entry", &answer, |answer| answer["id"].is_i64() && answer["type"] == "fact")?;
    step.end(&format!("entry {}", answer["id"]))?;

    let step = Step::begin("hypothesis_record (two rivals)");
    let record = |text, checks| json!({ "sessionId": session, "text": text, "requiredChecks": checks });
    let callers = record("A caller passes no name.", json!(["read every caller of greet_visitor"]));
    let callers = step.hypothesis(&host.tool("hypothesis_record", callers).await?, "unverified")?;
    let template = record("The template takes the wrong parameter.", json!([]));
    let template = step.hypothesis(&host.tool("hypothesis_record", template).await?, "unverified")?;
    step.end("both alive")?;

    let claim = json!({ "sessionId": session, "claim": "The root cause is a caller that passes no name." });
    let step = Step::begin("claim_evaluate_from_session");
    let answer = host.tool("claim_evaluate_from_session", claim.clone()).await?;
    step.expect("a root-cause claim that is not allowed yet", &answer, |answer| {
        answer["allowed"] == false && answer["type"] == "root_cause"
    })?;
    step.end(&format!("not allowed yet, score {}: missing {}", answer["score"], list(&answer["missing"])))?;

    settle(host, &session, &callers, &template).await?;

    let step = Step::begin("claim_evaluate_from_session");
    let answer = host.tool("claim_evaluate_from_session", claim).await?;
    step.expect("the claim to be allowed now", &answer, |answer| answer["allowed"] == true)?;
    step.end(&format!("allowed, score {}", answer["score"]))?;
    Ok(session)
}

/// Rejects one hypothesis, supports the other, and walks through the phases.
async fn settle(host: &mut Host, session: &str, callers: &str, template: &str) -> Result<(), DemoError> {
    let step = Step::begin("hypothesis_reject");
    let why = "The template takes `$1`, which is the name it is given.";
    let reject = json!({ "sessionId": session, "hypothesisId": template, "reason": why });
    step.hypothesis(&host.tool("hypothesis_reject", reject).await?, "rejected")?;
    let entry = json!({ "sessionId": session, "type": "rejected", "content": why, "source": "src/greeting.sh:4" });
    let answer = host.tool("ledger_add", entry).await?;
    step.expect("the stored entry", &answer, |answer| answer["type"] == "rejected")?;
    step.end("the template is ruled out, and recorded as such")?;

    let step = Step::begin("hypothesis_support");
    let on = |more: Value| {
        let mut arguments = json!({ "sessionId": session, "hypothesisId": callers });
        if let (Some(arguments), Value::Object(more)) = (arguments.as_object_mut(), more) {
            arguments.extend(more);
        }
        arguments
    };
    let evidence = "The visitor list is read before it is loaded.";
    step.hypothesis(&host.tool("hypothesis_evidence", on(json!({ "evidence": evidence }))).await?, "supported")?;
    let early = host.tool("hypothesis_support", on(json!({}))).await?;
    step.expect("support to be refused while a check is open", &early, |answer| answer["error"].is_string())?;
    step.hypothesis(&host.tool("hypothesis_check_done", on(json!({ "checkIndex": 0 }))).await?, "supported")?;
    step.hypothesis(&host.tool("hypothesis_support", on(json!({}))).await?, "supported")?;
    step.end("refused while a check was open, granted when it was done")?;

    let step = Step::begin("grounding_advance");
    let mut phases = Vec::new();
    while phases.last().is_none_or(|phase| phase != "complete") && phases.len() < MAX_ADVANCES {
        let answer = host.tool("grounding_advance", json!({ "sessionId": session })).await?;
        phases.push(text(&answer["currentPhase"]).to_owned());
    }
    step.expect("the session to become complete", &json!(phases), |phases| {
        phases.as_array().and_then(|phases| phases.last()).is_some_and(|phase| phase == "complete")
    })?;
    step.end(&phases.join(", "))
}

async fn remember(host: &mut Host) -> Result<(), DemoError> {
    for (value, exists) in [("greet_visitor", true), ("greet_guest", false)] {
        let step = Step::begin(&format!("verify_memory_reference {value}"));
        let answer = host.tool("verify_memory_reference", json!({ "kind": "symbol", "value": value })).await?;
        let expected = if exists { "the symbol to exist" } else { "the symbol not to exist" };
        step.expect(expected, &answer, |answer| answer["exists"] == exists)?;
        step.end(&if exists { format!("there, {} times", answer["matchCount"]) } else { "not there".to_owned() })?;
    }
    Ok(())
}

async fn evaluate(stage: &Stage, host: &mut Host) -> Result<(), DemoError> {
    let step = Step::begin("solution_gate");
    let answer = host.tool("solution_gate", json!({ "id": ID })).await?;
    step.expect("no verdict yet", &answer, |answer| answer["allowed"] == false && answer["code"] == "no_verdict")?;
    step.end("denied, no_verdict")?;

    let step = Step::begin("solution_evaluate");
    let (answer, polls) = wait::shown("preflight runs", outcome(host)).await?;
    step.expect("a ready verdict", &answer, |answer| answer["verdict"]["ready"] == true)?;
    let head = stage.git(&["rev-parse", "HEAD"]).await?;
    step.expect("a verdict of HEAD", &answer, |answer| answer["verdict"]["head"] == head.trim())?;
    let confidence = &answer["verdict"]["confidence"];
    let preflight = &answer["diagnostics"]["preflight"];
    let which = match text(&answer["verdict"]["source"]) {
        "preflight-builtin" => "the built-in checks",
        _ => text(&preflight["path"]),
    };
    let version = text(&preflight["version"]);
    step.end(&format!("ready at {}, confidence {confidence}, by {which} {version}, {polls} polls", short(head.trim())))
}

/// Evaluates, polls while the checks run, and returns the answer that holds the verdict, and the number of polls.
async fn outcome(host: &mut Host) -> Result<(Value, u32), DemoError> {
    let started = Instant::now();
    let answer = host.tool("solution_evaluate", json!({ "id": ID })).await?;
    // On a busy machine the checks may not have begun within the bound; then, too, polling tells how they end.
    let goes_on = |answer: &Value| answer["status"] == "running" || answer["status"] == "running-unconfirmed";
    if !goes_on(&answer) {
        return Ok((answer, 0));
    }
    let mut polls = 0;
    while started.elapsed() < CHECKS {
        polls += 1;
        let status = host.tool("solution_evaluate_status", json!({ "id": ID })).await?;
        if !goes_on(&status) {
            return Ok((host.tool("solution_evaluate_result", json!({ "id": ID })).await?, polls));
        }
        let pause = status["pollAfterMs"].as_u64().unwrap_or(1000).min(5000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    let came = format!("it still runs after {} s", CHECKS.as_secs());
    Err(DemoError::Surprise { step: "solution_evaluate".into(), expected: "the checks to end".into(), came })
}

async fn gate(stage: &Stage, host: &mut Host) -> Result<(), DemoError> {
    let step = Step::begin("solution_gate");
    let answer = host.tool("solution_gate", json!({ "id": ID })).await?;
    step.expect("the gate to allow", &answer, |answer| answer["allowed"] == true && answer["code"] == "ready")?;
    step.end("allowed")?;

    let step = Step::begin("git commit");
    stage.commit(&[("README.md", "# greeting\n\nGreets visitors.\n")], "docs: say less").await?;
    step.end("one more commit, after the verdict")?;

    let step = Step::begin("solution_gate");
    let answer = host.tool("solution_gate", json!({ "id": ID })).await?;
    step.expect("the gate to deny with stale_head", &answer, |answer| {
        answer["allowed"] == false && answer["code"] == "stale_head"
    })?;
    step.end(&format!("denied, stale_head: {}", text(&answer["reason"])))
}

/// One step, and the time it takes.
struct Step {
    name: String,
    started: Instant,
}

impl Step {
    fn begin(name: &str) -> Self {
        Self { name: name.to_owned(), started: Instant::now() }
    }

    fn expect(&self, expected: &str, came: &Value, holds: impl FnOnce(&Value) -> bool) -> Result<(), DemoError> {
        if holds(came) {
            return Ok(());
        }
        let came = came.to_string().chars().take(SHOWN).collect();
        Err(DemoError::Surprise { step: self.name.clone(), expected: expected.to_owned(), came })
    }

    /// Expects a hypothesis of that status, and returns its id.
    fn hypothesis(&self, answer: &Value, status: &str) -> Result<String, DemoError> {
        self.expect(&format!("a hypothesis that is {status}"), answer, |answer| {
            answer["hypothesis"]["status"] == status && answer["hypothesis"]["id"].is_string()
        })?;
        Ok(text(&answer["hypothesis"]["id"]).to_owned())
    }

    fn end(self, seen: &str) -> Result<(), DemoError> {
        let took = self.started.elapsed().as_millis();
        say(&format!("{took:>7} ms  {:<40} {seen}", self.name))
    }
}

fn heading(text: &str) -> Result<(), DemoError> {
    say(&format!("\n{text}"))
}

fn say(line: &str) -> Result<(), DemoError> {
    output::line(line).map_err(DemoError::Output)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ")
}

fn short(head: &str) -> &str {
    head.get(..10).unwrap_or(head)
}
