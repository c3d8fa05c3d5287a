//! The two prompts: the order of work for a debug task, and for calling a task done.

use rmcp::ErrorData;
use rmcp::model::{GetPromptRequestParams, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};

/// Returns both prompts.
#[must_use]
pub fn list() -> Vec<Prompt> {
    let argument = |name, description| PromptArgument::new(name).with_description(description).with_required(true);
    vec![
        Prompt::new(
            "ground_debugging",
            Some("Work on a problem with evidence before claims."),
            Some(vec![
                argument("keyword", "The domain in a word or two, such as auth or deploy-panel."),
                argument("problem", "What is wrong, as it was reported."),
            ]),
        )
        .with_title("Ground a debug task"),
        Prompt::new(
            "earn_done",
            Some("Have the committed work checked, and call the task done only when the gate allows it."),
            Some(vec![argument("id", "Names the task, such as task-42.")]),
        )
        .with_title("Earn the word done"),
    ]
}

/// Returns the prompt that was asked for.
///
/// # Errors
/// When there is no such prompt or an argument is missing.
pub fn get(request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let empty = JsonObject::new();
    let arguments = request.arguments.as_ref().unwrap_or(&empty);
    let argument = |name: &str| {
        let value = arguments.get(name).and_then(|value| value.as_str()).filter(|value| !value.trim().is_empty());
        let missing = || format!("the prompt {} needs the argument {name}, a text that is not empty", request.name);
        value.ok_or_else(|| ErrorData::invalid_params(missing(), None))
    };
    let text = match request.name.as_str() {
        "ground_debugging" => ground_debugging(argument("keyword")?, argument("problem")?),
        "earn_done" => earn_done(argument("id")?),
        unknown => {
            let message = format!("unknown prompt {unknown}; the prompts are ground_debugging and earn_done");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

fn ground_debugging(keyword: &str, problem: &str) -> String {
    format!(
        "Find the cause of this problem, with evidence before claims:

{problem}

1. Call grounding_start with keyword \"{keyword}\" and the problem above; use its sessionId in every further call.
2. Follow the current steps, and call grounding_advance when those of a phase are really done.
3. Record what you observe with ledger_add (type fact, with its source), and what you rule out as type rejected.
4. Record every cause you can name with hypothesis_record and the checks it needs; attach evidence, mark checks as done, reject what is refuted.
5. Before you name a cause, call hypothesis_list and claim_evaluate_from_session. If it is not allowed, do its next_steps first."
    )
}

fn earn_done(id: &str) -> String {
    format!(
        "Show that the task {id} is done:

1. Commit all work; the verdict speaks of a commit.
2. Call solution_evaluate with id \"{id}\". If it answers running, poll solution_evaluate_status with the same id after pollAfterMs.
3. Fix what the blockers name, commit, and evaluate again until the verdict is ready.
4. Call solution_gate with id \"{id}\", and say that the task is done only if it is allowed. Any commit after the verdict makes it stale."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(name: &str, arguments: &[(&str, &str)]) -> Result<String, ErrorData> {
        let mut request = GetPromptRequestParams::new(name);
        request.arguments = Some(arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect());
        Ok(serde_json::to_string(&get(&request)?).unwrap())
    }

    #[test]
    fn prompts_carry_their_arguments_and_refuse_without() {
        assert!(ask("earn_done", &[("id", "task-42")]).unwrap().contains("task-42"));
        assert!(ask("ground_debugging", &[("keyword", "auth"), ("problem", "401 at noon")]).unwrap().contains("401"));
        assert!(ask("ground_debugging", &[("keyword", "auth")]).unwrap_err().message.contains("problem"));
        assert!(ask("earn_done", &[("id", " ")]).is_err());
        assert!(ask("nothing", &[]).unwrap_err().message.contains("earn_done"));
    }
}
