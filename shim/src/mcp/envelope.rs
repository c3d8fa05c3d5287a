//! Finds the outer members `id` and `method` of a JSON message that can't be parsed, so that its sender gets an answer.
//!
//! It is fed piece by piece and keeps a few bytes, whatever the size of the message. It decides nothing else.

use serde_json::Value;

/// Longest key or scalar that is kept, in bytes.
const MAX_TOKEN_BYTES: usize = 256;

/// What is known of a message's outer members.
#[derive(Debug, Default)]
pub struct Envelope {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The key or scalar being read at depth 1, quotes included.
    token: Vec<u8>,
    key: Vec<u8>,
    id: Option<Value>,
    has_method: bool,
}

impl Envelope {
    /// Reads on.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_string { self.feed_string(*byte) } else { self.feed_plain(*byte) }
        }
    }

    /// Returns the id of a request: a message without a method is answered by nobody.
    #[must_use]
    pub fn request_id(&self) -> Option<&Value> {
        self.id.as_ref().filter(|_| self.has_method)
    }

    fn feed_string(&mut self, byte: u8) {
        self.keep(byte);
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    fn feed_plain(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.token),
            b',' => self.end_member(),
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < MAX_TOKEN_BYTES {
            self.token.push(byte);
        }
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        let value = std::mem::take(&mut self.token);
        match std::mem::take(&mut self.key).as_slice() {
            b"\"id\"" => {
                let id = serde_json::from_slice(&value).ok();
                self.id = id.filter(|id: &Value| id.is_string() || id.is_number());
            }
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<Value> {
        let mut whole = Envelope::default();
        whole.feed(text.as_bytes());
        let mut pieces = Envelope::default();
        text.as_bytes().iter().for_each(|byte| pieces.feed(&[*byte]));
        assert_eq!(whole.request_id(), pieces.request_id());
        whole.request_id().cloned()
    }

    #[test]
    fn the_outer_id_is_found_and_no_other() {
        assert_eq!(
            id(r#"{"method":"tools/call","params":{"id":1,"x":[{"id":2}]},"jsonrpc":"2.0","id":7}"#),
            Some(7.into())
        );
        assert_eq!(id(r#"{ "id" : "a\"}b" , "method" : "x", "params": {broken"#), Some(r#"a"}b"#.into()));
        assert_eq!(id(r#"{"method":"x","params":"\"id\":5,","id":6}"#), Some(6.into()));
        assert_eq!(id(r#"{"id":5,"result":{"method":"x"}}"#), None);
        assert_eq!(id(r#"{"method":"x","params":{}}"#), None);
        assert_eq!(id(r#"{"method":"x","id":{"a":1}}"#), None);
        assert_eq!(id("]]]}}}\u{0}garbage"), None);
    }
}
