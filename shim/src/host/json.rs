//! JSON as hosts read it: with comments and trailing commas, a byte order mark, and line ends of either kind.
//!
//! The text is parsed to know the positions, then spliced: comments, order, indentation and line ends stay. An edit is
//! checked against the values before it is returned. Must never edit what a strict reader and a lenient one read
//! differently.

use grammar::{Document, TokenKind};
use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use serde_json::{Map, Value, json};

use super::entry::{Edit, EditError, Emptied, IsComplete, NAME, Registration, is_ours, registration};
use super::splice::{Splices, indent_at, newline};

mod grammar;

/// Where a host keeps its servers, and what an entry looks like there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The key of the root object that holds the servers.
    pub servers: &'static str,
    /// The form of an entry.
    pub shape: Shape,
}

/// The form of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `{"command": "…"}`.
    Command,
    /// `{"type": "stdio", "command": "…"}`.
    Stdio,
    /// `{"type": "local", "command": ["…"], "enabled": true}`.
    Local,
}

const BYTE_ORDER_MARK: char = '\u{feff}';
const COMMAND: &str = "command";

/// Returns what stands under our name.
///
/// # Errors
/// When the text can't be parsed, or something else stands where an object belongs.
pub fn read(text: &str, place: Place) -> Result<Registration, EditError> {
    let document = Document::parse(split_mark(text).1)?;
    let Some(servers) = servers(&document, place)? else { return Ok(Registration::Absent) };
    let Some(entry) = grammar::member(servers, NAME)? else { return Ok(Registration::Absent) };
    Ok(match command(entry, place)? {
        Ok(literal) => registration(literal.value.to_string(), IsComplete::Yes),
        Err(starts) => Registration::Foreign { starts },
    })
}

/// Returns whether there is an object of servers.
///
/// # Errors
/// When the text can't be parsed, or something else stands in its place.
pub fn has_servers(text: &str, place: Place) -> Result<bool, EditError> {
    Ok(servers(&Document::parse(split_mark(text).1)?, place)?.is_some())
}

/// Returns whether our entry is there and switched off: hosts know either word for it.
#[must_use]
pub fn is_switched_off(text: &str, place: Place) -> bool {
    let document = Document::parse(split_mark(text).1);
    let found = document.as_ref().ok().and_then(|document| {
        let entry = grammar::member(servers(document, place).ok()??, NAME).ok()??;
        let entry = grammar::object(&entry.value, String::new).ok()?;
        let says = |key: &str, wanted: bool| {
            matches!(grammar::member(entry, key), Ok(Some(property))
                if matches!(&property.value, Node::BooleanLit(literal) if literal.value == wanted))
        };
        Some(says("enabled", false) || says("disabled", true))
    });
    found.unwrap_or(false)
}

/// Returns the text with our entry, or without it. A text that needs no change comes back as it is.
///
/// # Errors
/// When the text can't be parsed, something else stands where an object belongs, or the entry is another program's.
pub fn edit(text: &str, place: Place, edit: Edit<'_>) -> Result<String, EditError> {
    let (mark, body) = split_mark(text);
    let document = Document::parse(body)?;
    let mut splices = Splices::default();
    match edit {
        Edit::Register { command } => register(&document, place, command, &mut splices)?,
        Edit::Unregister { emptied } => unregister(&document, place, emptied, &mut splices)?,
    }
    let edited = splices.apply(body).filter(|edited| holds(body, edited, place, edit));
    let edited = edited.ok_or_else(|| EditError::Form { place: format!("`{}`", place.servers) })?;
    Ok(format!("{mark}{edited}"))
}

fn split_mark(text: &str) -> (&str, &str) {
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.split_at(text.len() - body.len())
}

fn servers<'d, 'a>(document: &'d Document<'a>, place: Place) -> Result<Option<&'d Object<'a>>, EditError> {
    let Some(root) = document.root()? else { return Ok(None) };
    let Some(servers) = grammar::member(root, place.servers)? else { return Ok(None) };
    grammar::object(&servers.value, || format!("`{}` in it", place.servers)).map(Some)
}

type Literal<'a> = jsonc_parser::ast::StringLit<'a>;

/// Returns the literal of an entry's command, or what the entry starts instead.
fn command<'d, 'a>(entry: &'d ObjectProp<'a>, place: Place) -> Result<Result<&'d Literal<'a>, String>, EditError> {
    let object = grammar::object(&entry.value, || format!("`{}.{NAME}` in it", place.servers))?;
    let value = grammar::member(object, COMMAND)?.map(|command| &command.value);
    let first = match (place.shape, value) {
        (Shape::Local, Some(Node::Array(words))) => words.elements.first(),
        (Shape::Local, _) => None,
        (Shape::Command | Shape::Stdio, value) => value,
    };
    let remote = || if object.get("url").is_some() { "a server that is reached by its URL" } else { "no command" };
    Ok(match first {
        Some(Node::StringLit(literal)) => Ok(literal),
        _ => Err(remote().to_owned()),
    })
}

/// Returns the literal of the command of an entry that must be ours.
fn own_command<'d, 'a>(entry: &'d ObjectProp<'a>, place: Place) -> Result<&'d Literal<'a>, EditError> {
    match command(entry, place)? {
        Ok(literal) if is_ours(&literal.value) => Ok(literal),
        Ok(literal) => Err(EditError::Foreign { starts: format!("`{}`", literal.value) }),
        Err(starts) => Err(EditError::Foreign { starts }),
    }
}

fn entry(command: &str, shape: Shape) -> Value {
    match shape {
        Shape::Command => json!({ COMMAND: command }),
        Shape::Stdio => json!({ "type": "stdio", COMMAND: command }),
        Shape::Local => json!({ "type": "local", COMMAND: [command], "enabled": true }),
    }
}

fn register(doc: &Document<'_>, place: Place, program: &str, splices: &mut Splices) -> Result<(), EditError> {
    let Some(root) = doc.root()? else {
        let value = json!({ place.servers: { NAME: entry(program, place.shape) } });
        let newline = newline(doc.text());
        let separator = if doc.text().is_empty() || doc.text().ends_with('\n') { "" } else { newline };
        let end = doc.text().len();
        let layout = Layout::Lines { newline, indent: "", unit: "  " };
        splices.replace(end..end, format!("{separator}{}{newline}", layout.render(&value)));
        return Ok(());
    };
    let Some(servers) = servers(doc, place)? else {
        insert(doc, root, place.servers, &json!({ NAME: entry(program, place.shape) }), splices);
        return Ok(());
    };
    let Some(present) = grammar::member(servers, NAME)? else {
        insert(doc, servers, NAME, &entry(program, place.shape), splices);
        return Ok(());
    };
    let literal = own_command(present, place)?;
    if literal.value != program {
        splices.replace(literal.start()..literal.end(), Value::from(program).to_string());
    }
    Ok(())
}

fn unregister(doc: &Document<'_>, place: Place, emptied: Emptied, splices: &mut Splices) -> Result<(), EditError> {
    let Some(servers) = servers(doc, place)? else { return Ok(()) };
    let Some(present) = grammar::member(servers, NAME)? else { return Ok(()) };
    own_command(present, place)?;
    match doc.root()? {
        Some(root) if goes(doc, servers, emptied) => cut(doc, root, place.servers, splices),
        _ => cut(doc, servers, NAME, splices),
    }
    Ok(())
}

/// Returns whether the table of servers goes with our entry; one that holds a comment of somebody stays.
fn goes(doc: &Document<'_>, servers: &Object<'_>, emptied: Emptied) -> bool {
    let [only] = servers.properties.as_slice() else { return false };
    let is_comment = |range| doc.tokens_in(range).iter().any(|token| token.kind.is_comment());
    emptied == Emptied::Goes && !is_comment(servers.start()..only.start()) && !is_comment(only.end()..servers.end())
}

/// Adds a member at the end of an object, in the layout of the members that are there.
fn insert(doc: &Document<'_>, object: &Object<'_>, key: &str, value: &Value, splices: &mut Splices) {
    let text = doc.text();
    let (open, close) = (object.start() + 1, object.end() - 1);
    let content = doc.token_before(close);
    let has_line_break = |start: usize, end: usize| text.get(start..end).is_some_and(|gap| gap.contains('\n'));
    let outer = indent_at(text, object.start());
    let first = object.properties.first();
    let is_root = doc.root().is_ok_and(|root| root.is_some_and(|root| std::ptr::eq(root, object)));
    let in_lines = content.kind == TokenKind::LineComment
        || match first {
            Some(first) => has_line_break(open, first.start()),
            None => has_line_break(open, close) || is_root || text.trim().contains('\n'),
        };
    let indent = match first {
        Some(first) if has_line_break(open, first.start()) => indent_at(text, first.start()).to_owned(),
        _ => format!("{outer}{}", doc.indent_unit()),
    };
    let newline = newline(text);
    let layout = if in_lines {
        Layout::Lines { newline, indent: &indent, unit: doc.indent_unit() }
    } else {
        Layout::Inline { space: if text.contains("\": ") { " " } else { "" } }
    };
    let member = format!("{}:{}{}", Value::from(key), layout.space(), layout.render(value));
    let Some(last) = object.properties.last() else {
        match layout {
            Layout::Lines { .. } if has_line_break(content.end, close) => {
                splices.replace(content.end..content.end, format!("{newline}{indent}{member}"));
            }
            Layout::Lines { .. } => {
                splices.replace(content.end..close, format!("{newline}{indent}{member}{newline}{outer}"));
            }
            Layout::Inline { .. } => splices.replace(content.end..close, member),
        }
        return;
    };
    let comma = doc.comma_in(last.end()..close).is_some();
    if !comma {
        splices.replace(last.end()..last.end(), ",");
    }
    let before = if in_lines { format!("{newline}{indent}") } else { layout.space().to_owned() };
    let after = if comma { "," } else { "" };
    splices.replace(content.end..content.end, format!("{before}{member}{after}"));
}

/// Removes a member, its comma, and the space it took; comments around it stay.
fn cut(doc: &Document<'_>, object: &Object<'_>, key: &str, splices: &mut Splices) {
    let members = &object.properties;
    let Some(index) = members.iter().position(|member| member.name.as_str() == key) else { return };
    let (Some(member), close) = (members.get(index), object.end() - 1) else { return };
    let comma_after = |member: &ObjectProp<'_>, until: usize| doc.comma_in(member.end()..until);
    if let Some(next) = members.get(index + 1) {
        let end = comma_after(member, next.start()).map_or(member.end(), |comma| comma.end);
        splices.replace(member.start()..doc.token_from(end).unwrap_or(end), "");
        return;
    }
    let own_comma = comma_after(member, close);
    let mut end = own_comma.as_ref().map_or(member.end(), |comma| comma.end);
    let before = doc.token_before(member.start());
    let next = doc.token_from(end).unwrap_or(close);
    let line_goes_on = !doc.text().get(end..next).is_some_and(|gap| gap.contains('\n'));
    let start = if before.kind == TokenKind::LineComment && line_goes_on { member.start() } else { before.end };
    if index == 0 && before.end == object.start() + 1 && next == close {
        end = close;
    }
    let previous = index.checked_sub(1).and_then(|index| members.get(index));
    if let (Some(previous), None) = (previous, own_comma)
        && let Some(comma) = comma_after(previous, member.start())
    {
        splices.replace(comma, "");
    }
    splices.replace(start..end, "");
}

/// How new text is laid out.
#[derive(Debug, Clone, Copy)]
enum Layout<'a> {
    /// A member a line.
    Lines { newline: &'a str, indent: &'a str, unit: &'a str },
    /// All on one line.
    Inline { space: &'a str },
}

impl Layout<'_> {
    fn space(&self) -> &str {
        match self {
            Self::Lines { .. } => " ",
            Self::Inline { space } => space,
        }
    }

    fn render(&self, value: &Value) -> String {
        let Value::Object(members) = value else { return value.to_string() };
        match *self {
            Self::Lines { newline, indent, unit } => {
                let inner = format!("{indent}{unit}");
                let layout = Layout::Lines { newline, indent: &inner, unit };
                let lines = members.iter().map(|(key, value)| {
                    format!("{newline}{inner}{}: {}", Value::from(key.as_str()), layout.render(value))
                });
                format!("{{{}{newline}{indent}}}", lines.collect::<Vec<_>>().join(","))
            }
            Self::Inline { space } => {
                let members = members.iter();
                let members =
                    members.map(|(key, value)| format!("{}:{space}{}", Value::from(key.as_str()), self.render(value)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(&format!(",{space}")))
            }
        }
    }
}

/// Returns whether the edited text says exactly what it should: our entry as asked, everything else as before.
fn holds(before: &str, after: &str, place: Place, edit: Edit<'_>) -> bool {
    let (Ok(mut expected), Ok(found)) = (grammar::value(before), grammar::value(after)) else { return false };
    let Some(root) = expected.as_object_mut() else { return false };
    match edit {
        Edit::Register { command } => {
            let servers = root.entry(place.servers).or_insert_with(|| Map::new().into());
            let Some(servers) = servers.as_object_mut() else { return false };
            match servers.get_mut(NAME) {
                None => {
                    servers.insert(NAME.to_owned(), entry(command, place.shape));
                }
                Some(present) => {
                    let at = if place.shape == Shape::Local { "/command/0" } else { "/command" };
                    let Some(present) = present.pointer_mut(at) else { return false };
                    *present = command.into();
                }
            }
            expected == found
        }
        Edit::Unregister { emptied } => {
            let Some(servers) = root.get_mut(place.servers).and_then(Value::as_object_mut) else {
                return before == after;
            };
            let is_last = servers.remove(NAME).is_some() && servers.is_empty();
            let stays = expected == found;
            if let Some(root) = expected.as_object_mut().filter(|_| is_last && emptied == Emptied::Goes) {
                root.remove(place.servers);
            }
            stays || expected == found
        }
    }
}

#[cfg(test)]
mod tests;
