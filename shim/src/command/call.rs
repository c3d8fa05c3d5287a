//! `groundingctl call`.

use std::io::Read;

use grounding_proto::environment::Environment;
use grounding_proto::{catalogue, exit};
use serde_json::Value;

use super::failure::CommandError;
use super::wait;
use crate::client::{Client, StartPolicy};
use crate::output;

/// Call a tool and print its answer as JSON.
///
/// Exit code 1: the tool answered with an error. Starts the daemon if need be.
#[derive(Debug, clap::Args)]
pub struct Call {
    /// The tool, such as ledger_status.
    tool: String,
    /// Its arguments as a JSON object; `-` reads them from stdin.
    #[arg(default_value = "{}")]
    arguments: String,
}

impl Call {
    /// Runs the command.
    ///
    /// # Errors
    /// When the arguments are no object, or the tool answers with an error.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        if catalogue::tool(&self.tool).is_none() {
            let names: Vec<_> = catalogue::tools().iter().map(|tool| tool.name).collect();
            return Err(CommandError::Usage(format!("unknown tool {}; the tools are {}", self.tool, names.join(", "))));
        }
        let arguments = parse(&self.arguments)?;
        let client = Client::new(environment, StartPolicy::WhenAbsent);
        let text = format!("waiting for {}", self.tool);
        let answer = wait::shown(&text, client.tool(&self.tool, arguments)).await?;
        output::json(&answer)?;
        Ok(exit::OK)
    }
}

fn parse(text: &str) -> Result<Value, CommandError> {
    let mut piped = String::new();
    let text = if text == "-" {
        let read = std::io::stdin().read_to_string(&mut piped);
        read.map_err(|error| CommandError::Usage(format!("can't read the arguments from stdin: {error}")))?;
        &piped
    } else {
        text
    };
    match serde_json::from_str(text) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(_) => Err(CommandError::Usage("the arguments must be a JSON object, such as '{\"id\":\"task-42\"}'".into())),
        Err(error) => Err(CommandError::Usage(format!("the arguments are not valid JSON: {error}"))),
    }
}
