//! Codex's `config.toml`: the table `mcp_servers.grounding` with its command and the variables that are passed on.
//!
//! As in `json`, the text is parsed to know the positions and spliced, because comments, order and line ends must stay;
//! writing the parsed document again would change line ends. Forms that people don't write by hand (an entry
//! of dotted keys) are read and not edited.

use std::ops::Range;

use serde_json::{Map, Value as Json};
use toml_edit::{Array, Document, Item, Table, TableLike, Value};

use super::entry::{Edit, EditError, IsComplete, NAME, Registration, is_ours, registration};
use super::splice::{Splices, newline};

const SERVERS: &str = "mcp_servers";
const COMMAND: &str = "command";
const VARIABLES: &str = "env_vars";

/// Returns what stands under our name; an entry is complete when it passes on all of these variables.
///
/// # Errors
/// When the text can't be parsed, or something else stands where a table belongs.
pub fn read(text: &str, variables: &[&str]) -> Result<Registration, EditError> {
    let document = parse(text)?;
    let Some(entry) = entry(&document)? else { return Ok(Registration::Absent) };
    Ok(match command(entry) {
        Ok((command, _)) => {
            let lacks = missing(entry, variables)?;
            registration(command.to_owned(), if lacks.is_empty() { IsComplete::Yes } else { IsComplete::No })
        }
        Err(starts) => Registration::Foreign { starts },
    })
}

/// Returns whether our entry is there and switched off.
#[must_use]
pub fn is_switched_off(text: &str) -> bool {
    let Ok(document) = parse(text) else { return false };
    let Ok(Some(entry)) = entry(&document) else { return false };
    entry.get("enabled").and_then(Item::as_bool) == Some(false)
}

/// Returns the text with our entry, which passes on these variables, or without it. A text that needs no change comes
/// back as it is.
///
/// # Errors
/// When the text can't be parsed or edited, something else stands where a table belongs, or the entry is another
/// program's.
pub fn edit(text: &str, variables: &[&str], edit: Edit<'_>) -> Result<String, EditError> {
    let document = parse(text)?;
    let mut splices = Splices::default();
    match edit {
        Edit::Register { command } => register(text, &document, variables, command, &mut splices)?,
        Edit::Unregister { .. } => unregister(text, &document, &mut splices)?,
    }
    let edited = splices.apply(text).filter(|edited| holds(&document, edited, variables, edit));
    edited.ok_or_else(by_hand)
}

fn parse(text: &str) -> Result<Document<&str>, EditError> {
    Document::parse(text).map_err(|error| {
        let line =
            error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
        EditError::Syntax { format: "TOML", why: format!("{} on line {line}", error.message().replace('\n', ", ")) }
    })
}

fn table<'a>(item: &'a Item, place: &str) -> Result<&'a dyn TableLike, EditError> {
    item.as_table_like().ok_or_else(|| EditError::WrongType {
        place: format!("`{place}` in it"),
        found: match item {
            Item::ArrayOfTables(_) | Item::Value(Value::Array(_)) => "an array",
            Item::Value(Value::String(_)) => "a string",
            Item::Value(Value::Boolean(_)) => "a boolean",
            _ => "a number or date",
        },
        expected: "a table",
    })
}

fn entry<'a>(document: &'a Document<&str>) -> Result<Option<&'a dyn TableLike>, EditError> {
    let Some(servers) = document.get(SERVERS) else { return Ok(None) };
    let Some(entry) = table(servers, SERVERS)?.get(NAME) else { return Ok(None) };
    table(entry, "mcp_servers.grounding").map(Some)
}

/// Returns the command of an entry and where it stands, or what the entry starts instead.
fn command(entry: &dyn TableLike) -> Result<(&str, Option<Range<usize>>), String> {
    match entry.get(COMMAND) {
        Some(item @ Item::Value(Value::String(command))) => Ok((command.value(), item.span())),
        _ if entry.contains_key("url") => Err("a server that is reached by its URL".to_owned()),
        _ => Err("no command".to_owned()),
    }
}

/// Returns the command of an entry that must be ours, and where it stands.
fn own_command(entry: &dyn TableLike) -> Result<(&str, Option<Range<usize>>), EditError> {
    let (command, span) = command(entry).map_err(|starts| EditError::Foreign { starts })?;
    if is_ours(command) { Ok((command, span)) } else { Err(EditError::Foreign { starts: format!("`{command}`") }) }
}

fn variables_of(entry: &dyn TableLike) -> Result<Option<&Array>, EditError> {
    match entry.get(VARIABLES) {
        None => Ok(None),
        Some(Item::Value(Value::Array(array))) => Ok(Some(array)),
        Some(_) => Err(EditError::WrongType {
            place: format!("`{SERVERS}.{NAME}.{VARIABLES}` in it"),
            found: "something else",
            expected: "an array",
        }),
    }
}

/// Returns which of the variables an entry does not pass on. Codex reads a name, or a table that holds one.
fn missing<'v>(entry: &dyn TableLike, variables: &[&'v str]) -> Result<Vec<&'v str>, EditError> {
    let passed: Vec<_> = variables_of(entry)?.into_iter().flatten().filter_map(name_of).collect();
    Ok(variables.iter().copied().filter(|variable| !passed.contains(variable)).collect())
}

fn name_of(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.as_inline_table()?.get("name")?.as_str())
}

fn quoted(text: &str) -> String {
    // A JSON string is a basic string of TOML: the same escapes, and control characters escaped.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn list(variables: &[&str]) -> String {
    variables.iter().map(|variable| quoted(variable)).collect::<Vec<_>>().join(", ")
}

fn register(
    text: &str,
    document: &Document<&str>,
    variables: &[&str],
    program: &str,
    splices: &mut Splices,
) -> Result<(), EditError> {
    let Some(present) = entry(document)? else {
        return append(text, document, variables, program, splices);
    };
    let (old, span) = own_command(present)?;
    if old != program {
        splices.replace(span.ok_or_else(by_hand)?, quoted(program));
    }
    let lacks = missing(present, variables)?;
    if lacks.is_empty() {
        return Ok(());
    }
    match variables_of(present)? {
        Some(array) => add_elements(array, &list(&lacks), splices).ok_or_else(by_hand),
        None => {
            let line = format!("{VARIABLES} = [{}]", list(&lacks));
            match document.get(SERVERS).and_then(|servers| servers.get(NAME)) {
                Some(Item::Value(Value::InlineTable(inline))) => add_inline(inline, &line, splices),
                Some(Item::Table(table)) if !table.is_dotted() => {
                    // After the command's line, since what follows the last key may be a comment on the next table.
                    let end = line_end(text, present.get(COMMAND).and_then(Item::span).map_or(0, |span| span.end));
                    splices.replace(end..end, format!("{}{line}", newline(text)));
                    Some(())
                }
                _ => None,
            }
            .ok_or_else(by_hand)
        }
    }
}

/// Adds a table of our own at the end of the text, where it can stand unless the servers are written in braces.
fn append(
    text: &str,
    document: &Document<&str>,
    variables: &[&str],
    program: &str,
    splices: &mut Splices,
) -> Result<(), EditError> {
    if document.get(SERVERS).is_some_and(Item::is_inline_table) {
        return Err(EditError::Form { place: format!("`{SERVERS}` in it") });
    }
    let newline = newline(text);
    let lines = [
        format!("[{SERVERS}.{NAME}]"),
        format!("{COMMAND} = {}", quoted(program)),
        format!("{VARIABLES} = [{}]", list(variables)),
    ];
    let block = lines.join(newline);
    let block = match text {
        "" | "\u{feff}" => format!("{block}{newline}"),
        // One blank line before, and the end as it was: what `unregister` takes away again.
        _ if text.ends_with('\n') => format!("{newline}{block}{newline}"),
        _ => format!("{newline}{newline}{block}"),
    };
    splices.replace(text.len()..text.len(), block);
    Ok(())
}

fn add_inline(table: &toml_edit::InlineTable, pair: &str, splices: &mut Splices) -> Option<()> {
    let at = match table.iter().last() {
        Some((_, last)) => last_end(last)?,
        None => table.span()?.start + 1,
    };
    let (before, after) = if table.is_empty() { (" ", " ") } else { (", ", "") };
    splices.replace(at..at, format!("{before}{pair}{after}"));
    Some(())
}

/// Returns where a value ends; that of a dotted key is no value, and what ends last in it is not looked for.
fn last_end(value: &Value) -> Option<usize> {
    let is_dotted = value.as_inline_table().is_some_and(toml_edit::InlineTable::is_dotted);
    if is_dotted { None } else { value.span().map(|span| span.end) }
}

fn add_elements(array: &Array, elements: &str, splices: &mut Splices) -> Option<()> {
    let at = match array.iter().last() {
        Some(last) => last.span()?.end,
        None => array.span()?.start + 1,
    };
    splices.replace(at..at, if array.is_empty() { elements.to_owned() } else { format!(", {elements}") });
    Some(())
}

/// Returns where the line of a position ends, before its line end.
fn line_end(text: &str, position: usize) -> usize {
    let rest = text.get(position..).unwrap_or_default();
    let line = rest.find('\n').map_or(rest, |newline| rest.get(..newline).unwrap_or_default());
    position + line.strip_suffix('\r').unwrap_or(line).len()
}

fn unregister(text: &str, document: &Document<&str>, splices: &mut Splices) -> Result<(), EditError> {
    let Some(present) = entry(document)? else { return Ok(()) };
    own_command(present)?;
    let Some(Item::Table(servers)) = document.get(SERVERS) else { return Err(by_hand()) };
    match servers.get_key_value(NAME) {
        Some((_, Item::Table(table))) if !table.is_dotted() => {
            let mut blocks = Vec::new();
            collect_blocks(table, &mut blocks).ok_or_else(by_hand)?;
            for block in blocks {
                cut_block(text, &block, splices);
            }
            Ok(())
        }
        Some((key, Item::Value(value))) => {
            let (key, value) = key.span().zip(value.span()).ok_or_else(by_hand)?;
            let start = text.get(..key.start).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
            // In a dotted form, `mcp_servers.grounding = {…}`, the key would not begin its line.
            let begins_line = text.get(start..key.start).is_some_and(|before| before.trim().is_empty());
            splices.replace(start..after_line(text, value.end), "");
            if begins_line { Ok(()) } else { Err(by_hand()) }
        }
        _ => Err(by_hand()),
    }
}

fn by_hand() -> EditError {
    EditError::Form { place: format!("`{SERVERS}.{NAME}` in it") }
}

/// Collects where a table and the tables below it stand, each from its header to its last value.
fn collect_blocks(table: &Table, blocks: &mut Vec<Range<usize>>) -> Option<()> {
    if !table.is_dotted() && !table.is_implicit() {
        let header = table.span()?;
        blocks.push(header.start..last_value(table, header.end)?);
    }
    for (_, item) in table {
        match item {
            Item::Table(below) => collect_blocks(below, blocks)?,
            Item::ArrayOfTables(tables) => tables.iter().try_for_each(|below| collect_blocks(below, blocks))?,
            Item::Value(_) | Item::None => {}
        }
    }
    Some(())
}

/// Returns where the last value below a header ends.
fn last_value(table: &Table, header: usize) -> Option<usize> {
    table.iter().try_fold(header, |end, (_, item)| match item {
        Item::Value(value) => Some(end.max(value_end(value)?)),
        Item::Table(below) if below.is_dotted() => last_value(below, end),
        _ => Some(end),
    })
}

fn value_end(value: &Value) -> Option<usize> {
    match value {
        Value::InlineTable(below) if below.is_dotted() => {
            below.iter().try_fold(0, |end, (_, value)| Some(end.max(value_end(value)?)))
        }
        value => value.span().map(|span| span.end),
    }
}

/// Removes a table with its line end and one blank line before it.
fn cut_block(text: &str, block: &Range<usize>, splices: &mut Splices) {
    let before = text.get(..block.start).unwrap_or_default();
    let end = after_line(text, block.end);
    let strip = |text: &str| text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text).len());
    let line_start = before.trim_end_matches([' ', '\t']).len();
    let before = text.get(..line_start).unwrap_or_default();
    let blank = strip(before).filter(|at| text.get(..*at).is_some_and(|rest| rest.is_empty() || rest.ends_with('\n')));
    // A text without a line end at its end has none before us either.
    let at_end = end == text.len() && !text.ends_with('\n');
    let start = match blank {
        Some(at) if at_end => text.get(..at).and_then(strip).unwrap_or(at),
        Some(at) => at,
        None => line_start,
    };
    splices.replace(start..end, "");
}

/// Returns where the line after that of a position begins.
fn after_line(text: &str, position: usize) -> usize {
    let rest = text.get(position..).unwrap_or_default();
    position + rest.find('\n').map_or(rest.len(), |newline| newline + 1)
}

/// Returns whether the edited text says exactly what it should: our entry as asked, everything else as before.
fn holds(before: &Document<&str>, after: &str, variables: &[&str], edit: Edit<'_>) -> bool {
    let Ok(after) = parse(after) else { return false };
    let (mut expected, found) = (json(before.as_item()), json(after.as_item()));
    let Some(root) = expected.as_object_mut() else { return false };
    match edit {
        Edit::Register { command } => {
            let servers = root.entry(SERVERS).or_insert_with(|| Map::new().into());
            let entry = servers.as_object_mut().map(|servers| servers.entry(NAME).or_insert_with(|| Map::new().into()));
            let Some(entry) = entry.and_then(Json::as_object_mut) else { return false };
            entry.insert(COMMAND.to_owned(), Json::from(format!("\"{command}\"")));
            let passed = entry.entry(VARIABLES).or_insert_with(|| Json::Array(Vec::new()));
            let Some(passed) = passed.as_array_mut() else { return false };
            let name = |variable: &Json| variable.get("name").unwrap_or(variable).clone();
            for variable in variables.iter().map(|variable| Json::from(format!("\"{variable}\""))) {
                if !passed.iter().any(|passed| name(passed) == variable) {
                    passed.push(variable);
                }
            }
            expected == found
        }
        Edit::Unregister { .. } => {
            if let Some(servers) = root.get_mut(SERVERS).and_then(Json::as_object_mut) {
                servers.remove(NAME);
                // Without a header of its own, the table of servers was only in our header.
                let was_implied = servers.is_empty() && found.get(SERVERS).is_none();
                if was_implied {
                    root.remove(SERVERS);
                }
            }
            expected == found
        }
    }
}

/// Returns what an item says, to be compared: a string in quotes, any other single value as it is written.
fn json(item: &Item) -> Json {
    let pairs = |table: &dyn TableLike| table.iter().map(|(key, item)| (key.to_owned(), json(item))).collect();
    match item {
        Item::None => Json::Null,
        Item::Value(Value::String(text)) => Json::from(format!("\"{}\"", text.value())),
        Item::Value(Value::Array(array)) => array.iter().map(|value| json(&Item::Value(value.clone()))).collect(),
        Item::Value(Value::InlineTable(table)) => Json::Object(pairs(table)),
        Item::Value(Value::Integer(number)) => number.value().to_string().into(),
        Item::Value(Value::Float(number)) => number.value().to_string().into(),
        Item::Value(Value::Boolean(truth)) => (*truth.value()).into(),
        Item::Value(Value::Datetime(moment)) => moment.value().to_string().into(),
        Item::Table(table) => Json::Object(pairs(table)),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| Json::Object(pairs(table))).collect(),
    }
}

#[cfg(test)]
mod tests;
