//! `groundingctl ledger`.

use std::io::Read;

use clap::{Subcommand, ValueEnum};
use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::ledger::{
    Confidence, DEFAULT_LISTED_ENTRIES, EntryType, LedgerEntry, LedgerList, LedgerListAnswer, MAX_LISTED_ENTRIES,
};
use grounding_proto::text::printable;
use serde_json::{Map, Value};

use super::attempts::word;
use super::failure::CommandError;
use super::table::{cut, table};
use super::{wait, when};
use crate::client::{Client, StartPolicy};
use crate::output;

/// Columns that a list gives to an entry's content.
const CONTENT_COLUMNS: usize = 100;
/// Most bytes that are read from stdin: what the longest content has, and one that shows that there is more.
const MAX_CONTENT_BYTES: u64 = 4 * 262_144 + 2;

/// List the evidence ledger's entries, or add one.
#[derive(Debug, clap::Args)]
pub struct Ledger {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List entries of all sessions or one, newest first.
    List {
        /// Only entries of this session.
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Only entries of this type; may be given several times.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<TypeName>,
        /// At most so many, 1 to 10000.
        #[arg(long, value_name = "N", default_value_t = DEFAULT_LISTED_ENTRIES,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LISTED_ENTRIES)))]
        limit: u32,
        /// Print JSON, with contents in full.
        #[arg(long)]
        json: bool,
    },
    /// Add an entry; it is on disk when this returns.
    Add {
        /// The session it belongs to.
        #[arg(long, value_name = "ID")]
        session: String,
        /// What the entry says.
        #[arg(long = "type", value_name = "TYPE")]
        entry_type: TypeName,
        /// Where it was seen: a file, a command, an address.
        #[arg(long)]
        source: Option<String>,
        /// How sure you are; medium by default.
        #[arg(long)]
        confidence: Option<ConfidenceName>,
        /// The statement itself; `-` reads it from stdin.
        content: String,
        /// Print the entry as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// An entry's type on the command line, spelled as on the wire.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum TypeName {
    Fact,
    Hypothesis,
    Rejected,
    Unknown,
    PolicyDecision,
}

/// A confidence on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ConfidenceName {
    High,
    Medium,
    Low,
}

impl From<TypeName> for EntryType {
    fn from(name: TypeName) -> Self {
        match name {
            TypeName::Fact => Self::Fact,
            TypeName::Hypothesis => Self::Hypothesis,
            TypeName::Rejected => Self::Rejected,
            TypeName::Unknown => Self::Unknown,
            TypeName::PolicyDecision => Self::PolicyDecision,
        }
    }
}

impl From<ConfidenceName> for Confidence {
    fn from(name: ConfidenceName) -> Self {
        match name {
            ConfidenceName::High => Self::High,
            ConfidenceName::Medium => Self::Medium,
            ConfidenceName::Low => Self::Low,
        }
    }
}

impl Ledger {
    /// Runs the command.
    ///
    /// # Errors
    /// When the daemon can't be reached or the ledger can't be used.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let client = Client::new(environment, StartPolicy::WhenAbsent);
        match self.verb {
            Verb::List { session, types, limit, json } => {
                let is_one_session = session.is_some();
                let types = types.into_iter().map(EntryType::from).collect();
                let question = LedgerList { session_id: session, types, limit };
                let answer: LedgerListAnswer = client.ask_for("/v1/ledger/entries", question).await?;
                if json { output::json(&answer)? } else { print_list(&answer, is_one_session)? }
            }
            Verb::Add { session, entry_type, source, confidence, content, json } => {
                let content = if content == "-" { read_content(std::io::stdin())? } else { content };
                let mut arguments = Map::new();
                arguments.insert("sessionId".to_owned(), session.into());
                arguments.insert("type".to_owned(), word(EntryType::from(entry_type)).into());
                arguments.insert("content".to_owned(), content.into());
                if let Some(source) = source {
                    arguments.insert("source".to_owned(), source.into());
                }
                if let Some(confidence) = confidence {
                    arguments.insert("confidence".to_owned(), word(Confidence::from(confidence)).into());
                }
                let adding = client.tool("ledger_add", Value::Object(arguments));
                let added = wait::shown("waiting for the ledger", adding).await?;
                if json {
                    output::json(&added)?;
                } else {
                    let session = printable(added["session"].as_str().unwrap_or_default());
                    output::line(&format!("added entry {} to session {session}", added["id"]))?;
                }
            }
        }
        Ok(exit::OK)
    }
}

/// Reads an entry's content, without the line end that `echo` puts behind it. Its bounds are the tool's to check.
fn read_content(from: impl Read) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_CONTENT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| CommandError::Usage(format!("can't read the content from stdin: {error}")))?;
    if bytes.len() as u64 > MAX_CONTENT_BYTES {
        return Err(CommandError::Usage("the content on stdin is longer than 262144 characters".to_owned()));
    }
    let mut content = String::from_utf8(bytes)
        .map_err(|error| CommandError::Usage(format!("the content on stdin is not UTF-8: {}", error.utf8_error())))?;
    if content.ends_with('\n') {
        content.pop();
        if content.ends_with('\r') {
            content.pop();
        }
    }
    Ok(content)
}

fn print_list(answer: &LedgerListAnswer, is_one_session: bool) -> Result<(), CommandError> {
    let cells = |entry: &LedgerEntry| {
        let content = cut(&printable(&entry.content), CONTENT_COLUMNS);
        let added = when::ago(&entry.created_at);
        (entry.id.to_string(), word(entry.entry_type), word(entry.confidence), added, content)
    };
    let text = if answer.entries.is_empty() {
        "no entries\n".to_owned()
    } else if is_one_session {
        let rows = answer.entries.iter().map(|entry| {
            let (id, entry_type, confidence, added, content) = cells(entry);
            [id, entry_type, confidence, added, content]
        });
        table(["ID", "TYPE", "CONFIDENCE", "ADDED", "CONTENT"], rows)
    } else {
        let rows = answer.entries.iter().map(|entry| {
            let (id, entry_type, confidence, added, content) = cells(entry);
            [id, entry_type, confidence, entry.session.clone(), added, content]
        });
        table(["ID", "TYPE", "CONFIDENCE", "SESSION", "ADDED", "CONTENT"], rows)
    };
    output::data(&text)?;
    if answer.truncated {
        let (shown, total) = (answer.entries.len(), answer.total);
        output::talk(&format!("These are the newest {shown} of {total} entries; --limit shows more."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_from_stdin_loses_one_line_end_and_is_bounded() {
        assert_eq!(read_content(&b"a\n\n"[..]).unwrap(), "a\n");
        assert_eq!(read_content(&b"a\r\n"[..]).unwrap(), "a");
        assert!(matches!(read_content(&b"\xff"[..]), Err(CommandError::Usage(why)) if why.contains("UTF-8")));
        assert!(matches!(read_content(std::io::repeat(b'x')), Err(CommandError::Usage(why)) if why.contains("262144")));
    }
}
