//! The tool list as MCP shows it, made from the catalogue.

use std::sync::Arc;

use grounding_proto::catalogue;
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};

/// Returns all tools, in the catalogue's order.
#[must_use]
pub fn list() -> Vec<Tool> {
    catalogue::tools().iter().map(shown).collect()
}

/// Returns one tool.
#[must_use]
pub fn get(name: &str) -> Option<Tool> {
    catalogue::tool(name).map(shown)
}

fn shown(tool: &catalogue::Tool) -> Tool {
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.read_only)
        .destructive(tool.destructive)
        .idempotent(tool.idempotent)
        .open_world(false);
    let shown = Tool::new(tool.name, tool.description, tool.input_schema.clone())
        .with_title(tool.title)
        .with_raw_output_schema(Arc::new(tool.output_schema.clone()))
        .with_annotations(annotations);
    if !tool.always_load {
        return shown;
    }
    shown.with_meta(MetaObject(JsonObject::from_iter([("anthropic/alwaysLoad".to_owned(), true.into())])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_truthful_and_three_tools_load_at_once() {
        let tools = list();
        assert_eq!(tools.len(), 20);
        let destructive: Vec<_> =
            tools.iter().filter(|tool| tool.annotations.as_ref().unwrap().is_destructive()).collect();
        assert_eq!(destructive.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["hypothesis_reset"]);
        let loaded: Vec<_> = tools.iter().filter(|tool| tool.meta.is_some()).map(|tool| &*tool.name).collect();
        assert_eq!(loaded, ["grounding_start", "claim_evaluate_from_session", "solution_evaluate"]);
    }
}
