//! Recorded calls and answers: placeholders filled in before a call, and the differences found after it.
//!
//! A placeholder is a name in angle brackets. `<text>` is any non-blank string, `<time>`, `<ledger-time>`, `<sha>` and
//! `<uuid>` are what their names say, `<12 x>` is the letter x twelve times, and every other one stands for what the
//! test bound to it; the first answer that shows an unbound one binds it.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the placeholders stand for.
#[derive(Debug, Clone, Default)]
pub struct Bindings(BTreeMap<String, String>);

impl Bindings {
    /// Binds a placeholder, given without its brackets.
    pub fn bind(&mut self, name: &str, text: impl Into<String>) {
        self.0.insert(format!("<{name}>"), text.into());
    }

    /// Returns a value with every bound placeholder replaced.
    #[must_use]
    pub fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill_text(text)),
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(fields) => fields.iter().map(|(key, field)| (key.clone(), self.fill(field))).collect(),
            other => other.clone(),
        }
    }

    fn fill_text(&self, text: &str) -> String {
        let repeated = text.strip_prefix('<').and_then(|text| text.strip_suffix(" x>"));
        if let Some(count) = repeated.and_then(|count| count.parse().ok()) {
            return "x".repeat(count);
        }
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Returns where an answer differs from the expected one: keys, types, fixed values, lengths of lists.
    ///
    /// Further keys are allowed.
    #[must_use]
    pub fn differences(&mut self, expected: &Value, actual: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.compare("", expected, actual, &mut found);
        found
    }

    fn compare(&mut self, path: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
        match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => {
                for (key, field) in expected {
                    let path = format!("{path}/{key}");
                    match actual.get(key) {
                        Some(value) => self.compare(&path, field, value, found),
                        None => found.push(format!("{path} is missing")),
                    }
                }
            }
            (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
                for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                    self.compare(&format!("{path}/{index}"), expected, actual, found);
                }
            }
            (Value::String(expected), Value::String(actual)) if self.fits(expected, actual) => {}
            (Value::Number(expected), Value::Number(actual)) if expected.as_f64() == actual.as_f64() => {}
            _ if expected == actual => {}
            _ => found.push(format!("{path} is {actual}, expected {expected}")),
        }
    }

    fn fits(&mut self, expected: &str, actual: &str) -> bool {
        match expected {
            "<text>" => !actual.trim().is_empty(),
            "<time>" => has_form(actual, "dddd-dd-ddTdd:dd:dd.dddZ"),
            "<ledger-time>" => has_form(actual, "dddd-dd-dd dd:dd:dd"),
            "<sha>" => has_form(actual, &"h".repeat(40)),
            "<uuid>" => has_form(actual, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"),
            name if name.starts_with('<') && name.ends_with('>') && !self.0.contains_key(name) => {
                self.0.insert(name.to_owned(), actual.to_owned());
                true
            }
            _ => self.fill_text(expected) == actual,
        }
    }
}

/// Returns whether a text has a form: `d` is a decimal digit, `h` a lowercase hexadecimal one, the rest itself.
fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(character, form)| match form {
            'd' => character.is_ascii_digit(),
            'h' => character.is_ascii_hexdigit() && !character.is_ascii_uppercase(),
            _ => character == form,
        })
}

/// Returns where a value has another shape than the example: keys and types, whatever the values are.
///
/// Further keys are allowed. Lists are compared by their first items.
#[must_use]
pub fn shape_differences(example: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare_shapes("", example, actual, &mut found);
    found
}

fn compare_shapes(path: &str, example: &Value, actual: &Value, found: &mut Vec<String>) {
    match (example, actual) {
        (Value::Object(example), Value::Object(actual)) => {
            for (key, field) in example {
                let path = format!("{path}/{key}");
                match actual.get(key) {
                    Some(value) => compare_shapes(&path, field, value, found),
                    None => found.push(format!("{path} is missing")),
                }
            }
        }
        (Value::Array(example), Value::Array(actual)) => {
            if let (Some(example), Some(actual)) = (example.first(), actual.first()) {
                compare_shapes(&format!("{path}/0"), example, actual, found);
            }
        }
        _ if std::mem::discriminant(example) == std::mem::discriminant(actual) => {}
        _ => found.push(format!("{path} is {actual}, expected the type of {example}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn placeholders_are_filled_and_bound_by_the_first_answer() {
        let mut bindings = Bindings::default();
        bindings.bind("dir", "/d");
        assert_eq!(bindings.fill(&json!({"a": ["<dir>/x", "<3 x>"]})), json!({"a": ["/d/x", "xxx"]}));
        assert_eq!(bindings.differences(&json!({"id": "<thing>"}), &json!({"id": "7"})), Vec::<String>::new());
        assert_eq!(bindings.differences(&json!({"id": "<thing>"}), &json!({"id": "8"})).len(), 1);
    }

    #[test]
    fn differences_are_keys_types_values_and_lengths_and_further_keys_are_none() {
        let differences = |expected, actual| Bindings::default().differences(&expected, &actual);
        assert_eq!(differences(json!({"a": 1}), json!({"a": 1.0, "b": 2})), Vec::<String>::new());
        assert_eq!(differences(json!({"a": null}), json!({})), ["/a is missing"]);
        assert_eq!(differences(json!({"a": []}), json!({"a": ["x"]})).len(), 1);
        assert_eq!(differences(json!({"a": "<time>"}), json!({"a": "2026-12-01 07:12:02"})).len(), 1);
        assert_eq!(differences(json!({"a": "<text>"}), json!({"a": " "})).len(), 1);
    }

    #[test]
    fn shapes_ignore_values() {
        assert_eq!(shape_differences(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 2}, 3]})), Vec::<String>::new());
        assert_eq!(shape_differences(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": "2"}]})).len(), 1);
    }
}
