//! A minimal MCP host: raw JSON-RPC over the server's stdin and stdout.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::DemoError;
use super::stage::Stage;
use crate::process;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long the server may take to end after its input did.
const END: Duration = Duration::from_secs(2);

/// The host, and the server it started.
pub(super) struct Host {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    last_id: u64,
}

impl Host {
    /// Starts the server on the stage.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(server: &Path, stage: &Stage) -> Result<Self, DemoError> {
        let action = format!("start {}", server.display());
        let mut command = process::plain(server);
        command.env_clear().envs(stage.variables().iter().cloned()).current_dir(stage.repository());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let spawned = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        let mut child = spawned.map_err(DemoError::io(action.clone()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(DemoError::io(action)(std::io::Error::other("it has no stdin or stdout")));
        };
        Ok(Self { child, input, output: BufReader::new(output).lines(), last_id: 0 })
    }

    /// Sends a request and returns its result.
    ///
    /// # Errors
    /// When the answer is an error or does not come.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> Result<Value, DemoError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(method, &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        let no_answer = |reason: String| DemoError::NoAnswer { method: method.to_owned(), reason };
        loop {
            let line = timeout(PATIENCE, self.output.next_line()).await;
            let line = line.map_err(|_| no_answer(format!("nothing came within {} s", PATIENCE.as_secs())))?;
            let line = line.map_err(|error| no_answer(error.to_string()))?;
            let line = line.ok_or_else(|| no_answer("it ended".to_owned()))?;
            let mut message: Value = serde_json::from_str(&line).map_err(|error| no_answer(error.to_string()))?;
            if message["id"] != id {
                continue;
            }
            return match message.get_mut("result") {
                Some(result) => Ok(result.take()),
                None => Err(no_answer(message["error"].to_string())),
            };
        }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) async fn notify(&mut self, method: &str) -> Result<(), DemoError> {
        self.send(method, &json!({ "jsonrpc": "2.0", "method": method })).await
    }

    /// Calls a tool and returns its structured answer, which must be what the text holds too.
    ///
    /// # Errors
    /// When the tool answers with an error.
    pub(super) async fn tool(&mut self, tool: &str, arguments: Value) -> Result<Value, DemoError> {
        let mut result = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await?;
        let surprise = |expected: &str, came: &Value| DemoError::Surprise {
            step: tool.to_owned(),
            expected: expected.to_owned(),
            came: came.to_string(),
        };
        if result["isError"] == true {
            return Err(surprise("an answer", &result["content"][0]["text"]));
        }
        let answer = result["structuredContent"].take();
        let text = result["content"][0]["text"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if text.as_ref() != Some(&answer) {
            return Err(surprise("the same JSON as text and as structured content", &result["content"]));
        }
        Ok(answer)
    }

    /// Ends the server's input and waits for the server.
    ///
    /// # Errors
    /// When it does not end in time, or with an error.
    pub(super) async fn end(mut self) -> Result<(), DemoError> {
        drop(self.input);
        let ended = timeout(END, self.child.wait()).await;
        let came = match ended {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it still runs after {} s", END.as_secs()),
        };
        Err(DemoError::Surprise { step: "end of input".into(), expected: "the server to end".into(), came })
    }

    async fn send(&mut self, method: &str, message: &Value) -> Result<(), DemoError> {
        let line = format!("{message}\n");
        let written = self.input.write_all(line.as_bytes()).await;
        written.map_err(|error| DemoError::NoAnswer { method: method.to_owned(), reason: error.to_string() })
    }
}
