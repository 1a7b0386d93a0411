//! From method and path to an operation: pure, and the only place that knows paths.
//!
//! The path is split at its slashes first and decoded after, so that `%2F` never makes a segment and a
//! colon may come as `%3A`. A task's operation is what stands after the *last* colon, so that an id may
//! have colons of its own. `HEAD` is served wherever `GET` is, without a body; `OPTIONS` nowhere, since
//! no browser may call.

/// What a caller wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// `GET /.well-known/agent-card.json`
    Card,
    /// `GET /healthz`
    Health,
    /// `GET /readyz`
    Ready,
    /// `POST /message:send`
    Send,
    /// `GET /tasks`
    List,
    /// `GET /tasks/{id}`
    Get(String),
    /// `POST /tasks/{id}:cancel`
    Cancel(String),
    /// `POST /events`
    Event,
    /// An operation of A2A that is not offered, and its name.
    Unsupported(&'static str),
    /// Anything about webhooks.
    Push,
}

/// Why there is no operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoute {
    /// No such path.
    Path,
    /// The path is there, with these methods.
    Method {
        /// For the `Allow` header.
        allow: &'static str,
    },
}

impl Route {
    /// Whether this is an operation of A2A, which needs a version.
    pub(super) fn is_a2a(&self) -> bool {
        match self {
            Self::Card | Self::Health | Self::Ready | Self::Event => false,
            Self::Send
            | Self::List
            | Self::Get(_)
            | Self::Cancel(_)
            | Self::Unsupported(_)
            | Self::Push => true,
        }
    }
}

/// Whether a path needs no token, whatever the method.
pub(super) fn is_public(path: &str) -> bool {
    matches!(path, "/.well-known/agent-card.json" | "/healthz" | "/readyz")
}

/// Finds the operation.
///
/// # Errors
/// When there is none for the path, or not with this method.
pub(super) fn find(method: &http::Method, path: &str) -> Result<Route, NoRoute> {
    let segments: Option<Vec<String>> =
        path.strip_prefix('/').ok_or(NoRoute::Path)?.split('/').map(decode).collect();
    let segments = segments.ok_or(NoRoute::Path)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = method.as_str();
    match *segments.as_slice() {
        [".well-known", "agent-card.json"] => get(method, Route::Card),
        ["healthz"] => get(method, Route::Health),
        ["readyz"] => get(method, Route::Ready),
        ["message:send"] => post(method, Route::Send),
        ["message:stream"] => post(method, Route::Unsupported("streaming")),
        ["events"] => post(method, Route::Event),
        ["extendedAgentCard"] => get(method, Route::Unsupported("an extended agent card")),
        ["tasks"] => get(method, Route::List),
        ["tasks", task] if !task.is_empty() => find_task(method, task),
        ["tasks", task, "pushNotificationConfigs"] if !task.is_empty() => match method {
            "GET" | "HEAD" | "POST" => Ok(Route::Push),
            _ => Err(NoRoute::Method { allow: "GET, HEAD, POST" }),
        },
        ["tasks", task, "pushNotificationConfigs", config]
            if !task.is_empty() && !config.is_empty() =>
        {
            match method {
                "GET" | "HEAD" | "DELETE" => Ok(Route::Push),
                _ => Err(NoRoute::Method { allow: "GET, HEAD, DELETE" }),
            }
        }
        _ => Err(NoRoute::Path),
    }
}

fn find_task(method: &str, segment: &str) -> Result<Route, NoRoute> {
    match segment.rsplit_once(':') {
        Some((id, "cancel")) if !id.is_empty() => post(method, Route::Cancel(id.to_owned())),
        // The proto says GET, the text says POST, and clients do either.
        Some((id, "subscribe")) if !id.is_empty() => match method {
            "GET" | "HEAD" | "POST" => Ok(Route::Unsupported("subscribing to a task")),
            _ => Err(NoRoute::Method { allow: "GET, HEAD, POST" }),
        },
        // Another operation, which does not exist; to a reader it is an id that does not.
        Some(_) if method == "POST" => Err(NoRoute::Path),
        Some(_) | None => get(method, Route::Get(segment.to_owned())),
    }
}

fn get(method: &str, route: Route) -> Result<Route, NoRoute> {
    match method {
        "GET" | "HEAD" => Ok(route),
        _ => Err(NoRoute::Method { allow: "GET, HEAD" }),
    }
}

fn post(method: &str, route: Route) -> Result<Route, NoRoute> {
    if method == "POST" { Ok(route) } else { Err(NoRoute::Method { allow: "POST" }) }
}

/// Decodes `%XX`; none when it is no UTF-8 then, or a percent sign stands for nothing.
fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
            let high = digit(rest.next()?)?;
            bytes.push((high << 4) | digit(rest.next()?)?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (http::Method, &str) {
        let (method, path) = line.split_once(' ').unwrap();
        (method.parse().unwrap(), path)
    }

    fn route(line: &str) -> Result<Route, NoRoute> {
        let (method, path) = split(line);
        find(&method, path)
    }

    #[test]
    fn every_operation_has_its_method_and_path() {
        let id = || "x".to_owned();
        let cases = [
            ("GET /.well-known/agent-card.json", Route::Card),
            ("HEAD /.well-known/agent-card.json", Route::Card),
            ("GET /healthz", Route::Health),
            ("GET /readyz", Route::Ready),
            ("POST /message:send", Route::Send),
            ("POST /message%3Asend", Route::Send),
            ("POST /message%3asend", Route::Send),
            ("GET /tasks", Route::List),
            ("GET /tasks/x", Route::Get(id())),
            ("HEAD /tasks/x", Route::Get(id())),
            ("POST /tasks/x:cancel", Route::Cancel(id())),
            ("POST /tasks/x%3Acancel", Route::Cancel(id())),
            ("POST /tasks/a%3Ab:cancel", Route::Cancel("a:b".to_owned())),
            ("POST /tasks/a:cancel:cancel", Route::Cancel("a:cancel".to_owned())),
            ("GET /tasks/a%2Fb", Route::Get("a/b".to_owned())),
            ("GET /tasks/a:b", Route::Get("a:b".to_owned())),
            ("GET /tasks/:cancel", Route::Get(":cancel".to_owned())),
            ("POST /events", Route::Event),
            ("POST /message:stream", Route::Unsupported("streaming")),
            ("GET /tasks/x:subscribe", Route::Unsupported("subscribing to a task")),
            ("POST /tasks/x:subscribe", Route::Unsupported("subscribing to a task")),
            ("GET /extendedAgentCard", Route::Unsupported("an extended agent card")),
            ("POST /tasks/x/pushNotificationConfigs", Route::Push),
            ("GET /tasks/x/pushNotificationConfigs", Route::Push),
            ("GET /tasks/x/pushNotificationConfigs/1", Route::Push),
            ("DELETE /tasks/x/pushNotificationConfigs/1", Route::Push),
        ];
        for (line, expected) in cases {
            assert_eq!(route(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn another_method_is_told_which_there_are() {
        let cases = [
            ("POST /tasks", "GET, HEAD"),
            ("POST /tasks/x", "GET, HEAD"),
            ("DELETE /tasks/x", "GET, HEAD"),
            ("OPTIONS /tasks", "GET, HEAD"),
            ("GET /tasks/x:cancel", "POST"),
            ("PUT /tasks/x:cancel", "POST"),
            ("DELETE /tasks/x:subscribe", "GET, HEAD, POST"),
            ("GET /message:send", "POST"),
            ("HEAD /events", "POST"),
            ("post /events", "POST"),
            ("POST /healthz", "GET, HEAD"),
            ("PUT /tasks/x/pushNotificationConfigs", "GET, HEAD, POST"),
            ("POST /tasks/x/pushNotificationConfigs/1", "GET, HEAD, DELETE"),
        ];
        for (line, allow) in cases {
            assert_eq!(route(line), Err(NoRoute::Method { allow }), "{line}");
        }
    }

    #[test]
    fn another_path_is_not_there() {
        for line in [
            "GET /",
            "GET //tasks",
            "GET /tasks/",
            "GET /Tasks",
            "GET /tasks//x",
            "GET /tasks/x/y",
            "GET /tasks/%ff",
            "GET /tasks/%4",
            "POST /tasks/x:frobnicate",
            "POST /tasks/:cancel",
            "GET /v1/tasks",
            "POST /message:send/",
            "GET /metrics",
            "GET /triggers",
            "GET /openapi.json",
            "OPTIONS *",
            "GET /tasks%2Fx",
        ] {
            assert_eq!(route(line), Err(NoRoute::Path), "{line}");
        }
    }
}
