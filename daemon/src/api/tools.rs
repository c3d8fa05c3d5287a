//! `POST /v1/tools/{tool}`: arguments are checked against the catalogue, then one function of a domain answers.
//!
//! A call that changes something is finished even if its client hangs up: it runs in a task of its own. One that only
//! reads ends with its client.

use std::path::{Path as FilePath, PathBuf};

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use grounding_proto::claim::{ClaimAnswer, ClaimEvaluate, ClaimEvaluateFromSession};
use grounding_proto::ledger::LedgerStatusAnswer;
use grounding_proto::solution::{
    SolutionEvaluate, SolutionEvaluateAnswer, SolutionGate, SolutionGateAnswer, SolutionLookup,
};
use grounding_proto::wire::{Context, Root, ToolRequest};
use grounding_proto::{catalogue, schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Daemon;
use super::health::parse;
use super::refusal::Refusal;
use crate::attempt::lookup::{self, LookupRequest};
use crate::attempt::table::{EvaluateRequest, WhenLive};
use crate::solution::gate::{self, GateRequest};
use crate::{claim, hypothesis, reference, session};

/// `POST /v1/tools/{tool}`.
pub async fn call(
    State(daemon): State<Daemon>,
    Path(tool): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let counted = daemon.begin_request().ok_or_else(Refusal::draining)?;
    let catalogued =
        catalogue::tool(&tool).ok_or_else(|| Refusal::not_found(format!("there is no tool \"{tool}\"")))?;
    let ToolRequest { arguments, context } = parse(&body?)?;
    let arguments = schema::check(catalogued.name, &catalogued.input_schema, arguments)?;
    let answered = async move {
        let answer = answer(&daemon, catalogued.name, arguments, context).await;
        drop(counted);
        answer
    };
    let answered = if catalogued.read_only { answered.await } else { tokio::spawn(answered).await? };
    let json = answered.map_err(|refusal| refusal.of_tool(catalogued.name))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

async fn answer(daemon: &Daemon, tool: &str, arguments: Value, context: Context) -> Result<Vec<u8>, Refusal> {
    let clock = daemon.clock().clone();
    let roots = &context.roots;
    match tool {
        "grounding_start" => {
            let (dir, arguments) = (root(&roots.sessions)?, typed(arguments)?);
            json(&blocking(move || session::start(clock.as_ref(), &dir, arguments)).await?)
        }
        "grounding_advance" => {
            let (dir, arguments) =
                (root(&roots.sessions)?, typed::<grounding_proto::session::GroundingAdvance>(arguments)?);
            json(&blocking(move || session::advance(&dir, &arguments.session_id)).await?)
        }
        "grounding_guardrail_check" => {
            let (dir, arguments) = (root(&roots.sessions)?, typed(arguments)?);
            json(&blocking(move || session::guardrail_check(&dir, arguments)).await?)
        }
        "ledger_add" => json(&daemon.ledgers().add(&root(&roots.ledger)?, typed(arguments)?).await?),
        "ledger_summary" => json(&daemon.ledgers().summary(&root(&roots.ledger)?, &typed(arguments)?).await?),
        "ledger_status" => json(&ledger_status(daemon, &roots.ledger).await),
        "claim_evaluate" => {
            let arguments: ClaimEvaluate = typed(arguments)?;
            let met = arguments.context.unwrap_or_default();
            json(&claim::evaluate(&arguments.claim, arguments.claim_type, met))
        }
        "claim_evaluate_from_session" => json(&claim_from_session(daemon, typed(arguments)?, &context).await?),
        "solution_evaluate" => json(&solution_evaluate(daemon, typed(arguments)?, context).await?),
        "solution_gate" => json(&solution_gate(daemon, &typed(arguments)?, &context).await?),
        "solution_evaluate_status" => {
            let (attempts, request) = (daemon.attempts().clone(), lookup_request(daemon, typed(arguments)?, &context)?);
            json(&blocking(move || lookup::status(&attempts, &request)).await?)
        }
        "solution_evaluate_result" => {
            let (attempts, request) = (daemon.attempts().clone(), lookup_request(daemon, typed(arguments)?, &context)?);
            json(&blocking(move || lookup::result(&attempts, &request)).await?)
        }
        "verify_memory_reference" => json(&reference::verify(context.cwd.as_path(), typed(arguments)?).await),
        "hypothesis_record" => {
            let (dir, arguments) = (root(&roots.hypotheses)?, typed(arguments)?);
            json(&blocking(move || hypothesis::record(clock.as_ref(), &dir, arguments)).await?)
        }
        "hypothesis_list" => {
            let (dir, arguments) = (root(&roots.hypotheses)?, typed(arguments)?);
            json(&blocking(move || hypothesis::list(&dir, arguments)).await?)
        }
        "hypothesis_evidence" => {
            let (dir, arguments) = (root(&roots.hypotheses)?, typed(arguments)?);
            json(&blocking(move || hypothesis::evidence(clock.as_ref(), &dir, arguments)).await?)
        }
        "hypothesis_check_done" => {
            let (dir, arguments) = (root(&roots.hypotheses)?, typed(arguments)?);
            json(&blocking(move || hypothesis::check_done(clock.as_ref(), &dir, arguments)).await?)
        }
        "hypothesis_reject" => {
            let (dir, arguments) = (root(&roots.hypotheses)?, typed(arguments)?);
            json(&blocking(move || hypothesis::reject(clock.as_ref(), &dir, arguments)).await?)
        }
        "hypothesis_support" => {
            let (dir, arguments) = (root(&roots.hypotheses)?, typed(arguments)?);
            json(&blocking(move || hypothesis::support(clock.as_ref(), &dir, arguments)).await?)
        }
        "hypothesis_reset" => {
            let (dir, arguments) = (root(&roots.hypotheses)?, typed(arguments)?);
            json(&blocking(move || hypothesis::reset(&dir, arguments)).await?)
        }
        other => Err(Refusal::not_found(format!("there is no tool \"{other}\""))),
    }
}

/// Answers `ledger_status`, and health: a ledger that can't be used is an answer, too.
pub(super) async fn ledger_status(daemon: &Daemon, ledger: &Root) -> LedgerStatusAnswer {
    match root(ledger) {
        Ok(path) => daemon.ledgers().status(&path).await,
        Err(refusal) => LedgerStatusAnswer::error(refusal.message()),
    }
}

async fn claim_from_session(
    daemon: &Daemon,
    arguments: ClaimEvaluateFromSession,
    context: &Context,
) -> Result<ClaimAnswer, Refusal> {
    let (dir, ledger) = (root(&context.roots.sessions)?, root(&context.roots.ledger)?);
    let session_id = arguments.session_id.clone();
    let summary = blocking(move || session::load(&dir, &session_id)).await?;
    let evidence = daemon.ledgers().evidence(&ledger, &arguments.session_id).await?;
    Ok(claim::evaluate_from_session(&arguments.claim, arguments.claim_type, &summary.phase_status, evidence))
}

async fn solution_evaluate(
    daemon: &Daemon,
    arguments: SolutionEvaluate,
    context: Context,
) -> Result<SolutionEvaluateAnswer, Refusal> {
    let verdict_dir = root(&context.roots.verdicts)?;
    daemon.recover_once(&verdict_dir, context.settings);
    let force = arguments.force_new_attempt.unwrap_or_default();
    let env =
        context.env.ok_or_else(|| Refusal::invalid_request("solution_evaluate needs the client's environment"))?;
    let request = EvaluateRequest {
        repo_path: absolute(context.cwd.as_path(), arguments.repo_path.as_deref()),
        id: arguments.id,
        cwd: context.cwd.as_path().to_owned(),
        verdict_dir,
        signing_key: context.roots.signing_key,
        settings: context.settings,
        env,
        when_live: if force { WhenLive::Refuse } else { WhenLive::Join },
    };
    Ok(daemon.attempts().evaluate(request).await)
}

async fn solution_gate(
    daemon: &Daemon,
    arguments: &SolutionGate,
    context: &Context,
) -> Result<SolutionGateAnswer, Refusal> {
    let request = GateRequest {
        id: &arguments.id,
        repo_path: &absolute(context.cwd.as_path(), arguments.repo_path.as_deref()),
        verdict_dir: &root(&context.roots.verdicts)?,
        signing_key: &root(&context.roots.signing_key)?,
        environment: &daemon.environment_for(context),
    };
    Ok(gate::gate(request).await)
}

fn lookup_request(daemon: &Daemon, arguments: SolutionLookup, context: &Context) -> Result<LookupRequest, Refusal> {
    let verdict_dir = root(&context.roots.verdicts)?;
    daemon.recover_once(&verdict_dir, context.settings);
    Ok(LookupRequest { id: arguments.id, attempt_id: arguments.attempt_id, verdict_dir, settings: context.settings })
}

/// Returns the absolute path of a repository as a client named it.
fn absolute(cwd: &FilePath, path: Option<&str>) -> PathBuf {
    path.map_or_else(|| cwd.to_owned(), |path| cwd.join(path))
}

/// Returns a root's path, or the client's own refusal.
pub(super) fn root(root: &Root) -> Result<PathBuf, Refusal> {
    match root {
        Root::Path(path) if path.as_path().is_absolute() => Ok(path.as_path().to_owned()),
        Root::Path(path) => {
            Err(Refusal::invalid_request(format!("the root {} is not absolute", path.as_path().display())))
        }
        Root::Refused(why) => Err(Refusal::invalid_argument(why)),
    }
}

/// Turns checked arguments into their type; what a schema can't say is said by the type.
fn typed<T: DeserializeOwned>(arguments: Value) -> Result<T, Refusal> {
    serde_json::from_value(arguments).map_err(|error| Refusal::invalid_argument(error.to_string()))
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(answer)
        .map_err(|error| Refusal::internal(format!("the answer can't be written as JSON: {error}")))
}

/// Runs file work where it may block.
pub(super) async fn blocking<T: Send + 'static, E: Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Refusal>
where
    Refusal: From<E>,
{
    Ok(tokio::task::spawn_blocking(work).await??)
}
