//! A raw MCP client on the shim's pipes: one line out, one line in, every read bounded.
//!
//! It knows JSON-RPC and nothing of any SDK, so that a test decides what is on the wire.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process;
use crate::wait::DEADLINE;

/// A running shim and the pipes to it.
#[derive(Debug)]
pub struct Shim {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    last_id: i64,
    notifications: VecDeque<Value>,
}

/// What a tool answered.
#[must_use]
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Whether the tool refused.
    pub is_error: bool,
    /// The text block.
    pub text: String,
    /// The structured content.
    pub structured: Option<Value>,
}

impl Shim {
    /// Starts the command with all three streams piped.
    #[must_use]
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the shim starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut errors = child.stderr.take().expect("stderr is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let collected = Arc::clone(&stderr);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = errors.read(&mut chunk) {
                let text = String::from_utf8_lossy(&chunk[..length]).into_owned();
                collected.lock().expect("no holder panics").push_str(&text);
            }
        });
        Self { child, stdin, lines, stderr, last_id: 0, notifications: VecDeque::new() }
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns what it wrote to stderr so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("no holder panics").clone()
    }

    /// Writes bytes and a newline; what the shim makes of them is the test's business.
    pub fn send_line(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("stdin was not closed");
        let mut bytes = line.as_ref().to_vec();
        bytes.push(b'\n');
        stdin.write_all(&bytes).and_then(|()| stdin.flush()).expect("the shim reads its stdin");
    }

    /// Returns the next line, or nothing when none came in time or stdout ended.
    #[must_use]
    pub fn read_line(&mut self, within: Duration) -> Option<String> {
        self.lines.recv_timeout(within).ok()
    }

    /// Sends a request and returns its id.
    pub fn send_request(&mut self, method: &str, params: Value) -> i64 {
        self.last_id += 1;
        let mut request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method });
        if !params.is_null() {
            request["params"] = params;
        }
        self.send_line(request.to_string());
        self.last_id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send_line(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// Returns the whole response to a request; notifications that come before it are kept.
    ///
    /// # Panics
    /// When none comes within the deadline, or stdout holds anything but JSON-RPC.
    #[must_use]
    pub fn response(&mut self, id: i64) -> Value {
        let started = Instant::now();
        loop {
            let message = self.message(DEADLINE.saturating_sub(started.elapsed()), &format!("the response to {id}"));
            if message["id"] == id {
                return message;
            }
            assert!(message.get("method").is_some(), "not the response to {id} and no notification: {message}");
            self.notifications.push_back(message);
        }
    }

    /// Returns the next response, whichever request it answers; notifications that come before it are kept.
    #[must_use]
    pub fn any_response(&mut self) -> Value {
        loop {
            let message = self.message(DEADLINE, "a response");
            if message.get("id").is_some() {
                return message;
            }
            self.notifications.push_back(message);
        }
    }

    /// Returns the next notification.
    #[must_use]
    pub fn notification(&mut self) -> Value {
        if let Some(kept) = self.notifications.pop_front() {
            return kept;
        }
        let message = self.message(DEADLINE, "a notification");
        assert!(message.get("method").is_some(), "not a notification: {message}");
        message
    }

    /// Returns the notifications that were read and not asked for yet.
    #[must_use]
    pub fn kept_notifications(&mut self) -> Vec<Value> {
        self.notifications.drain(..).collect()
    }

    fn message(&mut self, within: Duration, what: &str) -> Value {
        let line = match self.lines.recv_timeout(within) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("{what} did not come in time; stderr: {}", self.stderr()),
            Err(RecvTimeoutError::Disconnected) => panic!("stdout ended before {what}; stderr: {}", self.stderr()),
        };
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("stdout holds no JSON: {error}: {line}"))
    }

    /// Sends a request and returns its response.
    #[must_use]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.response(id)
    }

    /// Opens the connection in the era of `initialize` and returns the result.
    pub fn initialize(&mut self) -> Value {
        let client = json!({ "name": "grounding-tests", "version": "0" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let response = self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        let result = response.get("result");
        result.unwrap_or_else(|| panic!("initialize was refused: {response}")).clone()
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: Value) -> ToolResult {
        let response = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        ToolResult::of_response(&response)
    }

    /// Calls a tool that is to answer, and returns the answer.
    ///
    /// # Panics
    /// When it refuses, or the text is not the answer's JSON (SPEC 9.4).
    pub fn answer(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments).into_answer(tool)
    }

    /// Calls a tool that is to refuse, and returns the text.
    ///
    /// # Panics
    /// When it answers.
    #[must_use]
    pub fn refusal(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert!(result.is_error, "{tool} did not refuse: {}", result.text);
        assert_eq!(result.structured, None, "{tool}: an error has no structured content");
        result.text
    }

    /// Closes stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until the process ends and returns its status and the time that took.
    pub fn wait_exit(&mut self) -> (ExitStatus, Duration) {
        process::wait_exit(&mut self.child)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // A shim that has ended can't be killed, and that is fine; in either case it is waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl ToolResult {
    /// Returns the result in the response to a `tools/call`.
    ///
    /// # Panics
    /// When the response is an error of the protocol, or has not exactly one text block.
    pub fn of_response(response: &Value) -> Self {
        let result = response.get("result").unwrap_or_else(|| panic!("an error of the protocol: {response}"));
        let blocks = result["content"].as_array().map(Vec::as_slice);
        let Some([block]) = blocks else { panic!("not one content block: {response}") };
        Self {
            is_error: result["isError"] == true,
            text: block["text"].as_str().unwrap_or_else(|| panic!("no text block: {response}")).to_owned(),
            structured: result.get("structuredContent").cloned(),
        }
    }

    /// Returns the answer.
    ///
    /// # Panics
    /// When the tool refused, or the text is not the answer's JSON (SPEC 9.4).
    #[must_use]
    pub fn into_answer(self, tool: &str) -> Value {
        assert!(!self.is_error, "{tool} refused: {}", self.text);
        let answer = self.structured.unwrap_or_else(|| panic!("{tool}: no structured content beside {}", self.text));
        assert_eq!(answer.to_string(), self.text, "{tool}: the text is not the answer's JSON");
        answer
    }
}
