//! The 20 tools: each called well and badly, and the process lives on.

use std::collections::BTreeSet;

use grounding_tests::contract::Bindings;
use grounding_tests::{Shim, TestEnvironment, ToolResult, binaries};
use serde_json::{Value, json};

fn recorded(list: &str) -> Vec<Value> {
    let calls: Value = serde_json::from_str(&binaries::fixture("calls.json")).expect("calls.json is JSON");
    calls[list].as_array().expect("a list").clone()
}

fn tool_of(call: &Value) -> &str {
    call["tool"].as_str().expect("a tool")
}

fn listed_tools(shim: &mut Shim) -> Vec<Value> {
    let response = shim.request("tools/list", json!({}));
    response["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {response}")).clone()
}

#[test]
fn twenty_tools_are_listed_without_a_daemon() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let tools = listed_tools(&mut shim);
    assert_eq!(tools.len(), 20);
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["annotations"]["openWorldHint"], false, "{tool}");
    }
    let with_meta = |tool: &&Value| tool["_meta"]["anthropic/alwaysLoad"] == true;
    let always_loaded: Vec<_> = tools.iter().filter(with_meta).map(|tool| &tool["name"]).collect();
    assert_eq!(always_loaded, ["grounding_start", "claim_evaluate_from_session", "solution_evaluate"]);
    assert_eq!(environment.daemons(), Vec::<u32>::new());
}

#[test]
fn every_tool_answers_a_good_call() {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", binaries::preflight());
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let mut unused: BTreeSet<String> =
        listed_tools(&mut shim).iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect();
    let mut bindings = Bindings::default();
    bindings.bind("repo", repository.text());
    for call in recorded("calls") {
        let answer = shim.answer(tool_of(&call), bindings.fill(&call["arguments"]));
        for (name, pointer) in call["keep"].as_object().into_iter().flatten() {
            let kept = answer.pointer(pointer.as_str().expect("a pointer"));
            bindings.bind(name, kept.and_then(Value::as_str).unwrap_or_else(|| panic!("{call}: no {name}: {answer}")));
        }
        unused.remove(tool_of(&call));
    }
    assert_eq!(unused, BTreeSet::new(), "tools without a good call");
}

#[test]
fn every_tool_refuses_bad_arguments_by_tool_field_and_bound() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let session = shim.answer("grounding_start", json!({ "keyword": "k", "problem": "p" }));
    let mut bindings = Bindings::default();
    bindings.bind("session", session["sessionId"].as_str().expect("a session"));
    let mut found = Vec::new();
    for call in recorded("refusals") {
        let tool = tool_of(&call);
        let arguments = bindings.fill(&call["arguments"]);
        let text = match refusal(&mut shim, tool, &arguments) {
            Ok(text) => text,
            Err(answer) => {
                found.push(format!("{call} was answered: {answer}"));
                continue;
            }
        };
        let words = call["says"].as_array().expect("a list").iter().map(|word| word.as_str().expect("a word"));
        let missing: Vec<_> = words.chain([tool]).filter(|word| !text.contains(word)).collect();
        if !missing.is_empty() {
            found.push(format!("{call}: no {missing:?} in: {text}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let tools: BTreeSet<_> = recorded("refusals").iter().map(|call| tool_of(call).to_owned()).collect();
    assert_eq!(tools.len(), 20, "tools without a bad call");
    let entries = shim.answer("ledger_status", json!({}));
    assert_eq!(entries["entryCount"], 0, "a refused call wrote");
}

/// Arguments that are no object may be refused by the protocol; everything else is a tool error.
fn refusal(shim: &mut Shim, tool: &str, arguments: &Value) -> Result<String, String> {
    let response = shim.request("tools/call", json!({ "name": tool, "arguments": arguments }));
    if let Some(error) = response.get("error").filter(|_| !arguments.is_object()) {
        assert_eq!(error["code"], -32602, "{response}");
        return Ok(error["message"].as_str().expect("a message").to_owned());
    }
    let result = ToolResult::of_response(&response);
    if result.is_error && result.structured.is_none() { Ok(result.text) } else { Err(format!("{result:?}")) }
}

#[test]
fn an_unknown_tool_is_an_error_that_names_it() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let response = shim.request("tools/call", json!({ "name": "ledger_remove", "arguments": {} }));
    let said = response.to_string();
    assert!(response.get("error").is_some() || response["result"]["isError"] == true, "{said}");
    assert!(said.contains("ledger_remove"), "{said}");
    assert_eq!(listed_tools(&mut shim).len(), 20);
}

#[test]
fn a_numeric_string_a_null_and_an_unknown_argument_are_taken() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let arguments = json!({ "sessionId": "s", "type": "fact", "content": "c", "source": null, "mood": "fine" });
    let entry = shim.answer("ledger_add", arguments);
    assert_eq!(entry["source"], Value::Null);
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s", "limit": "1", "types": null }));
    assert_eq!(summary["counts"]["facts"], 1);
}
