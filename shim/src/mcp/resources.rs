//! Resources: a session, a ledger and a verdict by address, for hosts that show them. Each reads through the daemon
//! what a tool answers too.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, ResourceContents, ResourceTemplate};
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::error::{ClientError, chain};

const SCHEME: &str = "grounding://";

/// What an address names.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    Session(String),
    Ledger(String),
    Verdict(String),
}

/// Returns the templates of all addresses.
#[must_use]
pub fn templates() -> Vec<ResourceTemplate> {
    let template = |address, name, description| {
        ResourceTemplate::new(address, name).with_description(description).with_mime_type("application/json")
    };
    vec![
        template(
            "grounding://session/{id}",
            "session",
            "A grounding session: its phases, guardrails and current steps.",
        ),
        template("grounding://ledger/{session}", "ledger", "The newest entries of a session's evidence ledger."),
        template("grounding://verdict/{id}", "verdict", "What the solution gate says of an id in this repository now."),
    ]
}

/// Reads a resource.
///
/// # Errors
/// When the address names nothing, or the daemon can't be reached or refuses.
pub async fn read(client: &Client, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(named) = parse(uri) else {
        let message = format!(
            "{uri} is no resource of this server; there are grounding://session/{{id}}, grounding://ledger/{{session}} and grounding://verdict/{{id}}"
        );
        return Err(ErrorData::resource_not_found(message, None));
    };
    let object = fetch(client, named).await.map_err(|error| failure(&error))?;
    let contents = ResourceContents::text(Value::Object(object).to_string(), uri).with_mime_type("application/json");
    Ok(ReadResourceResult::new(vec![contents]))
}

async fn fetch(client: &Client, named: Named) -> Result<Map<String, Value>, ClientError> {
    match named {
        Named::Session(id) => client.ask(&format!("/v1/sessions/{}", utf8_percent_encode(&id, NON_ALPHANUMERIC))).await,
        Named::Ledger(session) => client.tool("ledger_summary", json!({ "sessionId": session })).await,
        Named::Verdict(id) => client.tool("solution_gate", json!({ "id": id })).await,
    }
}

fn failure(error: &ClientError) -> ErrorData {
    use grounding_proto::wire::ErrorCode;
    match error {
        ClientError::Refused(body) if body.code == ErrorCode::NotFound => {
            ErrorData::resource_not_found(body.message.clone(), None)
        }
        ClientError::Refused(body) if body.code == ErrorCode::InvalidArgument => {
            ErrorData::invalid_params(body.message.clone(), None)
        }
        other => ErrorData::internal_error(chain(other), None),
    }
}

fn parse(uri: &str) -> Option<Named> {
    let (kind, id) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let id = percent_decode_str(id).decode_utf8().ok()?.into_owned();
    match kind {
        _ if id.is_empty() => None,
        "session" => Some(Named::Session(id)),
        "ledger" => Some(Named::Ledger(id)),
        "verdict" => Some(Named::Verdict(id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        assert_eq!(parse("grounding://session/gs-a-1"), Some(Named::Session("gs-a-1".into())));
        assert_eq!(parse("grounding://verdict/a%2Fb%20c"), Some(Named::Verdict("a/b c".into())));
        assert_eq!(parse("grounding://ledger/x/y"), Some(Named::Ledger("x/y".into())));
        for uri in [
            "grounding://ledger/",
            "grounding://other/x",
            "file:///etc/passwd",
            "grounding://session",
            "",
            "grounding://session/%ff",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
    }
}
