//! JSON schemas of the tools, and the check of arguments against them (SPEC 1 and 9.5).
//!
//! The schema an agent is shown is the schema its arguments are held to: bounds stand once, on the argument types. It
//! must never demand what the schema does not say, except that `id` and `keyword` count UTF-16 code units, because
//! each becomes one byte of a file name.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// A JSON schema: an object with everything inlined.
pub type Schema = Map<String, Value>;

/// An argument that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tool}: {problem}")]
pub struct InvalidArguments {
    /// The tool that was called.
    pub tool: String,
    /// What is wrong with which field, and what it should be.
    pub problem: String,
}

/// Returns the schema of a tool's arguments: plain keywords that every host understands.
#[must_use]
pub fn input<T: JsonSchema>() -> Schema {
    let mut schema = inlined::<T>(SchemaSettings::draft2020_12().into_generator());
    let required = schema.get("required").cloned();
    simplify(&mut schema, true);
    if let Some(required) = required {
        schema.insert("required".into(), required);
    }
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema
}

/// Returns the schema of a tool's answer.
#[must_use]
pub fn output<T: JsonSchema>() -> Schema {
    let mut schema = inlined::<T>(SchemaSettings::draft2020_12().for_serialize().into_generator());
    simplify(&mut schema, false);
    schema
}

fn inlined<T: JsonSchema>(generator: SchemaGenerator) -> Schema {
    let mut settings = generator.settings().clone();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let Value::Object(mut schema) = schema else { return Map::new() };
    schema.shift_remove("title");
    schema.shift_remove("description");
    schema
}

/// Rewrites what some hosts refuse: `format`, enums spelled as `oneOf`, `null` in type arrays, `default`.
fn simplify(schema: &mut Schema, input: bool) {
    schema.shift_remove("format");
    schema.shift_remove("default");
    schema.shift_remove("title");
    merge_constants(schema);
    if input {
        drop_null(schema);
    } else {
        split_types(schema);
        name_any(schema);
    }
    for (_, child) in schema.iter_mut() {
        simplify_child(child, input);
    }
}

fn simplify_child(child: &mut Value, input: bool) {
    match child {
        Value::Object(object) if object.contains_key("$ref") => {}
        Value::Object(object) => simplify(object, input),
        Value::Array(items) => items.iter_mut().for_each(|item| simplify_child(item, input)),
        _ => {}
    }
}

/// `oneOf: [{const: "a"}, {const: "b"}]` becomes `type: string, enum: [a, b]`.
fn merge_constants(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return };
    let names: Option<Vec<Value>> = variants.iter().map(|variant| variant.get("const").cloned()).collect();
    if let Some(names) = names {
        schema.shift_remove("oneOf");
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), Value::Array(names));
    }
}

/// Optional means absent: `null` leaves the type, the enum and the alternatives.
fn drop_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(names)) = schema.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    if let Some(Value::Array(alternatives)) = schema.get("anyOf") {
        let mut rest = alternatives.iter().filter(|alternative| alternative.get("type") != Some(&Value::from("null")));
        if let (Some(Value::Object(only)), None) = (rest.next().cloned(), rest.next()) {
            schema.shift_remove("anyOf");
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
        merge_constants(schema);
    }
}

/// `type: [integer, null], minimum: 0` becomes `anyOf: [{type: integer, minimum: 0}, {type: null}]`: some hosts know no
/// type arrays.
fn split_types(schema: &mut Schema) {
    let Some(Value::Array(types)) = schema.get("type").cloned() else { return };
    schema.shift_remove("type");
    let description = schema.shift_remove("description");
    let mut keywords = std::mem::take(schema);
    if let Some(Value::Array(names)) = keywords.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    let alternative = |name: &Value| {
        let mut alternative = Map::from_iter([("type".to_owned(), name.clone())]);
        if name != "null" {
            alternative.extend(keywords.clone());
        }
        Value::Object(alternative)
    };
    schema.extend(description.map(|text| ("description".to_owned(), text)));
    schema.insert("anyOf".into(), types.iter().map(alternative).collect());
}

/// Lists the types where any value is allowed: some hosts refuse `true` and a schema without a keyword.
fn name_any(schema: &mut Schema) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        name_any_value(property);
    }
    if let Some(items) = schema.get_mut("items") {
        name_any_value(items);
    }
}

fn name_any_value(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = Value::Object(Map::new());
    }
    let Value::Object(schema) = schema else { return };
    if schema.keys().all(|keyword| keyword == "description") {
        let types = ["object", "array", "string", "number", "boolean", "null"];
        schema.insert("anyOf".into(), types.iter().map(|name| json!({ "type": name })).collect());
    }
}

/// Checks arguments against a tool's input schema and brings them into its exact types.
///
/// Null is taken as absent, a whole number or boolean sent as a string is accepted, unknown arguments are dropped.
///
/// # Errors
/// Names the tool, the field, what it holds and what it should hold.
pub fn check(tool: &str, schema: &Schema, arguments: Value) -> Result<Value, InvalidArguments> {
    let invalid = |problem| InvalidArguments { tool: tool.to_owned(), problem };
    let arguments = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
    if !arguments.is_object() {
        return Err(invalid(format!("arguments must be an object, but are {}", shown(&arguments))));
    }
    check_value("arguments", schema, arguments).map_err(invalid)
}

fn check_value(path: &str, schema: &Schema, value: Value) -> Result<Value, String> {
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => check_object(path, schema, value),
        Some("array") => check_array(path, schema, value),
        Some("string") => check_string(path, schema, value),
        Some("integer") => check_integer(path, schema, value),
        Some("boolean") => check_boolean(path, value),
        _ => Ok(value),
    }
}

fn check_object(path: &str, schema: &Schema, value: Value) -> Result<Value, String> {
    let Value::Object(mut given) = value else { return Err(mismatch(path, "an object", &value)) };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let mut checked = Map::new();
    for (name, property) in properties {
        let Value::Object(property) = property else { continue };
        match given.shift_remove(name) {
            None | Some(Value::Null) if required.iter().any(|field| field == name) => {
                return Err(format!("`{name}` is missing: it must be {}", expectation(name, property)));
            }
            None | Some(Value::Null) => {}
            Some(value) => {
                checked.insert(name.clone(), check_value(name, property, value)?);
            }
        }
    }
    Ok(Value::Object(checked))
}

fn check_array(path: &str, schema: &Schema, value: Value) -> Result<Value, String> {
    let Value::Array(items) = value else { return Err(mismatch(path, &expectation(path, schema), &value)) };
    if bound(schema, "maxItems").is_some_and(|most| items.len() as u64 > most) {
        return Err(format!("`{path}` must be {}, but has {} items", expectation(path, schema), items.len()));
    }
    let Some(Value::Object(item)) = schema.get("items") else { return Ok(Value::Array(items)) };
    let checked =
        items.into_iter().enumerate().map(|(index, value)| check_value(&format!("{path}[{index}]"), item, value));
    checked.collect::<Result<_, _>>().map(Value::Array)
}

fn check_string(path: &str, schema: &Schema, value: Value) -> Result<Value, String> {
    let Value::String(text) = &value else { return Err(mismatch(path, &expectation(path, schema), &value)) };
    if let Some(Value::Array(names)) = schema.get("enum") {
        return if names.contains(&value) {
            Ok(value)
        } else {
            Err(mismatch(path, &expectation(path, schema), &value))
        };
    }
    let length = length(path, text);
    let too_short = bound(schema, "minLength").is_some_and(|least| length < least);
    let too_long = bound(schema, "maxLength").is_some_and(|most| length > most);
    if too_short || too_long {
        return Err(format!("`{path}` must be {}, but has {length}", expectation(path, schema)));
    }
    Ok(value)
}

fn check_integer(path: &str, schema: &Schema, value: Value) -> Result<Value, String> {
    let whole = match &value {
        Value::String(text) => text.trim().parse::<i64>().ok(),
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
        _ => None,
    };
    let Some(whole) = whole else { return Err(mismatch(path, &expectation(path, schema), &value)) };
    let below = schema.get("minimum").and_then(Value::as_f64).is_some_and(|least| (whole as f64) < least);
    let above = schema.get("maximum").and_then(Value::as_f64).is_some_and(|most| (whole as f64) > most);
    if below || above { Err(mismatch(path, &expectation(path, schema), &value)) } else { Ok(whole.into()) }
}

/// Returns a float such as `3.0` as the whole number it is.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "guarded: whole and within the exactly represented range")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

fn check_boolean(path: &str, value: Value) -> Result<Value, String> {
    match &value {
        Value::Bool(_) => Ok(value),
        Value::String(text) if text == "true" => Ok(true.into()),
        Value::String(text) if text == "false" => Ok(false.into()),
        _ => Err(mismatch(path, "a boolean, true or false", &value)),
    }
}

fn bound(schema: &Schema, keyword: &str) -> Option<u64> {
    schema.get(keyword).and_then(Value::as_u64)
}

/// Counts what the field's bound counts.
fn length(path: &str, text: &str) -> u64 {
    let count = if matches!(path, "id" | "keyword") { text.encode_utf16().count() } else { text.chars().count() };
    count as u64
}

fn mismatch(path: &str, expected: &str, value: &Value) -> String {
    format!("`{path}` must be {expected}, but is {}", shown(value))
}

/// Says what a field should hold, from its schema.
fn expectation(path: &str, schema: &Schema) -> String {
    if let Some(Value::Array(names)) = schema.get("enum") {
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", names.join(", "));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => {
            let unit = if matches!(path, "id" | "keyword") { "characters (UTF-16 units)" } else { "characters" };
            match (bound(schema, "minLength"), bound(schema, "maxLength")) {
                (Some(least), Some(most)) => format!("a string of {least} to {most} {unit}"),
                (None, Some(most)) => format!("a string of at most {most} {unit}"),
                (Some(least), None) => format!("a string of at least {least} {unit}"),
                (None, None) => "a string".to_owned(),
            }
        }
        Some("integer") => {
            let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
            match (number("minimum"), number("maximum")) {
                (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
                (Some(least), None) => format!("a whole number of at least {least}"),
                _ => "a whole number".to_owned(),
            }
        }
        Some("boolean") => "a boolean, true or false".to_owned(),
        Some("array") => {
            let items = match schema.get("items") {
                Some(Value::Object(item)) => format!(", each {}", expectation("", item)),
                _ => String::new(),
            };
            match bound(schema, "maxItems") {
                Some(most) => format!("an array of at most {most} items{items}"),
                None => format!("an array{items}"),
            }
        }
        Some("object") => "an object".to_owned(),
        _ => "a value".to_owned(),
    }
}

/// Shows a value in an error: its type, and the value itself where it is short.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 80;
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "the boolean",
        Value::Number(_) => "the number",
        Value::String(_) => "the string",
        Value::Array(_) => return "an array".to_owned(),
        Value::Object(_) => return "an object".to_owned(),
    };
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{kind} {}...", &text[..cut]),
        None => format!("{kind} {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Arguments {
        #[schemars(length(min = 1, max = 3))]
        id: String,
        #[schemars(range(min = 0))]
        check_index: Option<u64>,
        kind: Option<crate::reference::ReferenceKind>,
        force: Option<bool>,
        #[schemars(length(max = 2), inner(length(min = 1, max = 4)))]
        names: Option<Vec<String>>,
    }

    fn verdict(arguments: Value) -> Result<Value, String> {
        check("tool", &input::<Arguments>(), arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_are_brought_into_their_types() {
        let given = json!({"id": "abc", "checkIndex": "3", "force": "true", "kind": null, "extra": 1, "names": ["a"]});
        assert_eq!(verdict(given), Ok(json!({"id": "abc", "checkIndex": 3, "force": true, "names": ["a"]})));
        assert_eq!(verdict(json!({"id": "a", "checkIndex": 2.0})), Ok(json!({"id": "a", "checkIndex": 2})));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_bound() {
        for (arguments, expected) in [
            (json!({}), "tool: `id` is missing: it must be a string of 1 to 3 characters (UTF-16 units)"),
            (json!({"id": 5}), "tool: `id` must be a string of 1 to 3 characters (UTF-16 units), but is the number 5"),
            (json!({"id": ""}), "tool: `id` must be a string of 1 to 3 characters (UTF-16 units), but has 0"),
            (json!({"id": "😀😀"}), "tool: `id` must be a string of 1 to 3 characters (UTF-16 units), but has 4"),
            (
                json!({"id": "a", "checkIndex": -1}),
                "tool: `checkIndex` must be a whole number of at least 0, but is the number -1",
            ),
            (
                json!({"id": "a", "checkIndex": 1.5}),
                "tool: `checkIndex` must be a whole number of at least 0, but is the number 1.5",
            ),
            (
                json!({"id": "a", "kind": "file"}),
                "tool: `kind` must be one of path, symbol, flag, but is the string \"file\"",
            ),
            (
                json!({"id": "a", "force": "yes"}),
                "tool: `force` must be a boolean, true or false, but is the string \"yes\"",
            ),
            (
                json!({"id": "a", "names": ["a", ""]}),
                "tool: `names[1]` must be a string of 1 to 4 characters, but has 0",
            ),
            (
                json!({"id": "a", "names": ["a", "b", "c"]}),
                "tool: `names` must be an array of at most 2 items, each a string of 1 to 4 characters, but has 3 items",
            ),
            (json!([1]), "tool: arguments must be an object, but are an array"),
        ] {
            assert_eq!(verdict(arguments), Err(expected.to_owned()));
        }
    }
}
