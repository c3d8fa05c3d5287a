//! One JSON-RPC message a line, over any pair of streams.
//!
//! Whatever arrives, the connection lives on, and a request gets an answer as long as its id can be found. The end of
//! the input cancels `ended`; an output that nobody reads any more does not, because a host ends us by our input.

use std::io;
use std::sync::Arc;

use grounding_proto::wire::MAX_BODY_BYTES;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::envelope::Envelope;

/// Longest line that is read, in bytes; half of what the daemon takes, because a call grows by its context.
pub const MAX_LINE_BYTES: usize = MAX_BODY_BYTES / 2;

const UNREADABLE: &str = "the message can't be read: it is not valid JSON, or nested deeper than 127 levels";

/// Room for a line that is kept between messages, in bytes.
const KEPT_LINE_BYTES: usize = 64 * 1024;

/// The transport.
#[derive(Debug)]
pub struct LineTransport<R, W> {
    lines: Lines<R>,
    writer: Arc<Mutex<W>>,
    ended: CancellationToken,
    /// An answer of the transport's own that is being written; nothing is read before it is out.
    reply: Option<JoinHandle<()>>,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> LineTransport<R, W> {
    /// Returns a transport over the streams; `ended` is cancelled when the reader is at its end.
    #[must_use]
    pub fn new(reader: R, writer: W, ended: CancellationToken) -> Self {
        Self { lines: Lines::new(reader), writer: Arc::new(Mutex::new(writer)), ended, reply: None }
    }

    fn reply(&mut self, error: &Value) {
        let bytes = format!("{error}\n").into_bytes();
        let write = write_line(Arc::clone(&self.writer), bytes);
        // Detached from `receive`, which may be dropped half-way at any await.
        self.reply = Some(tokio::spawn(async move {
            // One that can't be written is missed by nobody: the end of the output ends the process.
            let _ = write.await;
        }));
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = serde_json::to_vec(&message).map(|mut line| {
            line.push(b'\n');
            line
        });
        let writer = Arc::clone(&self.writer);
        async move { write_line(writer, line.map_err(io::Error::other)?).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let ended = self.ended.clone();
        loop {
            if let Some(reply) = &mut self.reply {
                tokio::select! {
                    () = ended.cancelled() => return None,
                    _ = reply => self.reply = None,
                }
            }
            let line = tokio::select! {
                () = ended.cancelled() => return None,
                line = self.lines.next() => line,
            };
            let reply = match line {
                Ok(Some(Line::Whole)) => {
                    let understood = understand(&self.lines.line);
                    self.lines.clear();
                    match understood {
                        Understood::Message(message) => return Some(*message),
                        Understood::Answer(error) => error,
                        Understood::Nothing => continue,
                    }
                }
                Ok(Some(Line::TooLong(envelope))) => error(
                    envelope.request_id(),
                    ErrorCode::INVALID_REQUEST,
                    &format!("the message is longer than {MAX_LINE_BYTES} bytes and was dropped; send less at once"),
                ),
                Ok(None) | Err(_) => {
                    ended.cancel();
                    return None;
                }
            };
            self.reply(&reply);
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn write_line<W: AsyncWrite + Unpin>(writer: Arc<Mutex<W>>, line: Vec<u8>) -> io::Result<()> {
    let mut writer = writer.lock().await;
    writer.write_all(&line).await?;
    writer.flush().await
}

enum Understood {
    Message(Box<ClientJsonRpcMessage>),
    Answer(Value),
    Nothing,
}

fn understand(line: &[u8]) -> Understood {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Understood::Nothing;
    }
    match serde_json::from_slice(line) {
        Ok(message) => Understood::Message(Box::new(message)),
        Err(_) => complain(line),
    }
}

/// Answers a line that is no message of the protocol. What is not even JSON is answered only when it is plainly a
/// request: a peer that echoes errors must not be answered forever.
fn complain(line: &[u8]) -> Understood {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        let mut envelope = Envelope::default();
        envelope.feed(line);
        return match envelope.request_id() {
            Some(id) => Understood::Answer(error(Some(id), ErrorCode::PARSE_ERROR, UNREADABLE)),
            None => Understood::Nothing,
        };
    };
    let invalid = |id, message| Understood::Answer(error(id, ErrorCode::INVALID_REQUEST, message));
    let Value::Object(message) = value else {
        return invalid(None, "a message is one JSON object a line; batches are not supported");
    };
    let id = message.get("id");
    let answerable = id.filter(|id| id.is_string() || id.is_number());
    match (message.get("method"), id) {
        (Some(_), None) => Understood::Nothing,
        (None, _) if message.contains_key("result") || message.contains_key("error") => Understood::Nothing,
        (None, _) => invalid(answerable, "a request needs a method"),
        (Some(_), Some(id)) if !id.is_string() && !id.is_i64() => {
            invalid(answerable, "the id of a request must be a string or a whole number of at most 64 bits")
        }
        (Some(method), Some(_)) if message.get("jsonrpc").is_some_and(|version| version == "2.0") => {
            let name = method.as_str().unwrap_or("a request");
            let text = format!("{name}: params must be an object of the form that the protocol gives them");
            Understood::Answer(error(answerable, ErrorCode::INVALID_PARAMS, &text))
        }
        (Some(_), Some(_)) => invalid(answerable, "the request is not JSON-RPC 2.0: it needs \"jsonrpc\":\"2.0\""),
    }
}

fn error(id: Option<&Value>, code: ErrorCode, message: &str) -> Value {
    let mut answer = json!({ "jsonrpc": "2.0" });
    if let Some(id) = id {
        answer["id"] = id.clone();
    }
    answer["error"] = json!({ "code": code.0, "message": message });
    answer
}

/// Reads bounded lines. Every step keeps its state here, so that a dropped `next` loses nothing.
#[derive(Debug)]
struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// What is known of a line that is too long, until its end is seen.
    dropping: Option<Envelope>,
}

enum Line {
    /// The line is in `line`, until `clear`.
    Whole,
    TooLong(Envelope),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), line: Vec::new(), dropping: None }
    }

    /// Returns the next line; a last one without a line break counts too.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.reader.fill_buf().await?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let (piece, complete) = match end {
                Some(end) => (&available[..=end], true),
                None => (available, available.is_empty()),
            };
            let consumed = piece.len();
            if let Some(envelope) = &mut self.dropping {
                envelope.feed(piece);
            } else if self.line.len() + consumed > MAX_LINE_BYTES {
                let mut envelope = Envelope::default();
                envelope.feed(&self.line);
                envelope.feed(piece);
                self.dropping = Some(envelope);
                self.clear();
            } else {
                self.line.extend_from_slice(piece);
            }
            self.reader.consume(consumed);
            if complete {
                return Ok(match self.dropping.take() {
                    Some(envelope) => Some(Line::TooLong(envelope)),
                    None if consumed == 0 && self.line.is_empty() => None,
                    None => Some(Line::Whole),
                });
            }
        }
    }

    fn clear(&mut self) {
        self.line.clear();
        self.line.shrink_to(KEPT_LINE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the bytes, and returns the messages that came through and the answers the transport gave by itself.
    async fn exchange(input: Vec<u8>) -> (Vec<Value>, Vec<Value>) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let ended = CancellationToken::new();
        let mut transport = LineTransport::new(std::io::Cursor::new(input), ours, ended.clone());
        let mut messages = Vec::new();
        while let Some(message) = transport.receive().await {
            messages.push(serde_json::to_value(message).unwrap());
        }
        assert!(ended.is_cancelled());
        if let Some(reply) = transport.reply.take() {
            reply.await.unwrap();
        }
        drop(transport);
        let mut lines = BufReader::new(theirs).lines();
        let mut answers = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            answers.push(serde_json::from_str(&line).unwrap());
        }
        (messages, answers)
    }

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    #[tokio::test]
    async fn messages_come_through_with_any_line_end() {
        let input = format!("\u{feff}{PING}\r\n\n   \n{PING}\n{PING}");
        let (messages, answers) = exchange(input.into_bytes()).await;
        assert_eq!((messages.len(), answers.len()), (3, 0));
    }

    #[tokio::test]
    async fn what_is_no_message_is_answered_when_it_has_an_id() {
        for (line, id, code) in [
            (r#"{"jsonrpc":"2.0","id":5,"method":"x","params":{oops}}"#, json!(5), -32700),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, json!(1.5), -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null, -32600),
            (r#"{"id":3,"method":"ping"}"#, json!(3), -32600),
            (r#"{"jsonrpc":"2.0","id":6,"method":"ping","params":[]}"#, json!(6), -32602),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, json!(7), -32602),
            (r#"{"jsonrpc":"2.0","id":4}"#, json!(4), -32600),
            (r"[1,2]", Value::Null, -32600),
            (r"7", Value::Null, -32600),
        ] {
            let (messages, answers) = exchange(format!("{line}\n{PING}\n").into_bytes()).await;
            assert_eq!(messages.len(), 1, "{line}");
            assert_eq!(answers.len(), 1, "{line}");
            assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&id, &json!(code)), "{line}");
        }
        for line in ["garbage", "\u{0}", "{", r#"{"jsonrpc":"2.0","error":{"code":1,"message":"x"},"id":1.5}"#] {
            let (messages, answers) = exchange(format!("{line}\n{PING}\n").into_bytes()).await;
            assert_eq!((messages.len(), answers.len()), (1, 0), "{line}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_answered_and_the_next_is_read() {
        let padding = "x".repeat(MAX_LINE_BYTES);
        let long = format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"{padding}"}},"id":"late"}}"#);
        let (messages, answers) = exchange(format!("{long}\n{PING}\n").into_bytes()).await;
        assert_eq!(messages.len(), 1);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0]["id"], "late");
        assert!(answers[0]["error"]["message"].as_str().unwrap().contains("16777216"));
    }

    #[tokio::test]
    async fn an_output_without_reader_does_not_end_the_transport() {
        let (ours, theirs) = tokio::io::duplex(64);
        drop(theirs);
        let ended = CancellationToken::new();
        let input = std::io::Cursor::new(format!("{PING}\n"));
        let mut transport = LineTransport::new(input, ours, ended.clone());
        let answer = ServerJsonRpcMessage::error(rmcp::ErrorData::invalid_request("x", None), None);
        assert!(transport.send(answer).await.is_err());
        assert!(!ended.is_cancelled());
        assert!(transport.receive().await.is_some());
        assert!(transport.receive().await.is_none());
        assert!(ended.is_cancelled());
    }
}
