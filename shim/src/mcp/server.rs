//! The MCP handler: lists from the catalogue, forwards calls, tells of progress (SPEC 9).
//!
//! Progress is sent from inside the call and awaited, so that it is written before the answer; it claims nothing about
//! any check. A cancelled call stops waiting, and whatever it started goes on.

use std::pin::pin;
use std::time::Duration;

use grounding_proto::catalogue;
use grounding_proto::wire::Settings;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::{prompts, resources, tools};
use crate::client::Client;
use crate::context::VERSION;
use crate::error::{ClientError, chain};

/// Least time between a ping and the answer: some clients read a ping that arrives with the answer as an error.
const QUIET_BEFORE_ANSWER: Duration = Duration::from_millis(30);

/// Longest time between two pings; beyond it, clocks overflow.
const MAX_PERIOD: Duration = Duration::from_secs(365 * 24 * 3600);

/// Methods of requests that this server answers.
const METHODS: &[&str] = &[
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// The handler.
#[derive(Debug)]
pub struct Server {
    client: Client,
    settings: Settings,
}

impl Server {
    /// Returns a handler that forwards through the client.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> Self {
        Self { client, settings }
    }

    /// Calls the tool, and tells of progress where that was asked for; nothing when the call was cancelled.
    async fn call(
        &self,
        tool: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<Map<String, Value>, ClientError>> {
        let mut call = pin!(self.client.tool(tool, arguments));
        let Some(token) = context.meta.get_progress_token() else {
            return tokio::select! {
                outcome = &mut call => Some(outcome),
                () = context.ct.cancelled() => None,
            };
        };
        let period = Duration::from_millis(self.settings.progress_ms).min(MAX_PERIOD);
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut pings, mut quiet_until) = (0.0, None);
        let outcome = loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => return None,
                outcome = &mut call => break outcome,
                _ = ticks.tick() => {}
            }
            pings += 1.0;
            let ping = ProgressNotificationParam::new(token.clone(), pings);
            let ping = context.peer.notify_progress(ping.with_message(format!("{tool} is still running")));
            tokio::select! {
                () = context.ct.cancelled() => return None,
                // A ping that can't be written is missed by nobody: the end of the output ends the process.
                sent = ping => {
                    let _ = sent;
                }
            }
            quiet_until = Some(Instant::now() + QUIET_BEFORE_ANSWER);
        };
        if let Some(quiet_until) = quiet_until {
            sleep_until(quiet_until).await;
        }
        Some(outcome)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("grounding-mcp", VERSION).with_title("Grounding"))
            .with_instructions(catalogue::INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        // Answers are shaped by the version that was agreed on, not by the one that was asked for.
        request.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::get(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = catalogue::tool(&request.name) else {
            let message = format!("unknown tool {}; tools/list names all tools", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let result = match self.call(tool.name, arguments, &context).await {
            Some(Ok(answer)) => CallToolResult::structured(Value::Object(answer)),
            Some(Err(error)) => failure(&chain(&error)),
            None => failure("cancelled"),
        };
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request).map(Into::into)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(Vec::new()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        tokio::select! {
            contents = resources::read(&self.client, &request.uri) => contents.map(Into::into),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    /// Answers what the protocol types could not hold: unknown methods, and known ones with unreadable parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        if METHODS.contains(&method) {
            return Err(ErrorData::invalid_params(unreadable(method, request.params.as_ref()), None));
        }
        let message = format!("unknown method {method}; this server answers {}", METHODS.join(", "));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}

fn failure(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Says what is wrong with the parameters of a known method.
fn unreadable(method: &str, params: Option<&Value>) -> String {
    let name = params.and_then(|params| params.get("name")).and_then(Value::as_str);
    let arguments = params.and_then(|params| params.get("arguments"));
    match (method, name, arguments) {
        ("tools/call" | "prompts/get", None, _) => {
            format!("{method}: params must be an object with the text `name` and the object `arguments`")
        }
        (_, Some(name), Some(arguments)) if !arguments.is_object() => {
            format!("{name}: `arguments` must be an object, but is {}", kind(arguments))
        }
        _ => format!("{method}: params do not have the form that the protocol gives them"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
