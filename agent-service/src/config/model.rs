//! Models: which API, which model, and where its key comes from.
//!
//! The key is never in the configuration. Without `api_key_env` only the official host of a provider
//! gets its standard variable; any other endpoint gets no key.

use std::collections::BTreeSet;

use reqwest::Url;
use service_kit::config::FieldPath;

use super::check::Checker;
use super::raw::RawModel;

/// The most tokens of one answer. Source: facts on the Go implementation, A.2.
pub(super) const DEFAULT_MAX_TOKENS: u32 = 4096;

/// The most that `max_tokens` and `context_tokens` may ask for. Ours; over any model of today.
const MAX_TOKENS: u32 = 10_000_000;

/// The longest model name and URL, in bytes. Ours.
const MAX_TEXT_BYTES: usize = 2048;

/// A model behind an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Which API it speaks.
    pub provider: Provider,
    /// Its name there.
    pub name: String,
    /// Where the API is, without a slash at the end.
    pub base_url: String,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// The most tokens of one answer.
    pub max_tokens: u32,
    /// How many tokens the model takes in; `None`: it is not known.
    pub context_tokens: Option<u32>,
    /// What is tried when it does not answer, in this order; these have no fallback of their own.
    pub fallback: Vec<Model>,
}

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// The API of `OpenAI`, and what speaks like it.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Ollama.
    Ollama,
    /// A server on this machine that speaks like `OpenAI`'s.
    Local,
}

impl Provider {
    const NAMES: [(&'static str, Self); 4] = [
        ("openai", Self::OpenAi),
        ("anthropic", Self::Anthropic),
        ("ollama", Self::Ollama),
        ("local", Self::Local),
    ];

    /// The name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::Local => "local",
        }
    }

    /// Where it is when `base_url` does not say so. Source: facts on the Go implementation, A.2.
    pub fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::Ollama => "http://localhost:11434/v1",
            Self::Local => "http://localhost:8080/v1",
        }
    }

    fn standard_key(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Ollama | Self::Local => None,
        }
    }
}

impl Model {
    /// The variables that hold keys of this model and its fallbacks.
    pub fn key_variables(&self) -> BTreeSet<&str> {
        let fallbacks = self.fallback.iter().filter_map(Self::key_variable);
        self.key_variable().into_iter().chain(fallbacks).collect()
    }

    /// The variable that holds the key; `None` for an endpoint that gets none.
    pub fn key_variable(&self) -> Option<&str> {
        let official = || host(&self.base_url) == host(self.provider.base_url());
        self.api_key_env.as_deref().or_else(|| self.provider.standard_key().filter(|_| official()))
    }
}

/// Checks a model; `None` when a fault says why.
pub(super) fn check(checker: &mut Checker<'_>, path: &FieldPath, raw: RawModel) -> Option<Model> {
    let mut model = check_one(checker, path, &raw);
    for (index, raw) in raw.fallback.unwrap_or_default().into_iter().enumerate() {
        let path = path.key("fallback").index(index);
        if raw.fallback.is_some() {
            checker.fault(&path.key("fallback"), "is one too many: a fallback has none of its own");
        }
        let fallback = check_one(checker, &path, &raw);
        if let (Some(model), Some(fallback)) = (&mut model, fallback) {
            model.fallback.push(fallback);
        }
    }
    model
}

fn check_one(checker: &mut Checker<'_>, path: &FieldPath, raw: &RawModel) -> Option<Model> {
    let provider = raw.provider.clone().unwrap_or_else(|| "openai".to_owned()).to_lowercase();
    let provider = checker.one_of(&path.key("provider"), &provider, &Provider::NAMES);
    let name = checker
        .required(&path.key("model"), raw.model.clone())
        .and_then(|model| checker.text(&path.key("model"), model, MAX_TEXT_BYTES));
    let base_url = raw.base_url.as_deref().map(|url| base_url(checker, path, url));
    let api_key_env =
        raw.api_key_env.clone().and_then(|name| checker.variable(&path.key("api_key_env"), name));
    let max_tokens =
        checker.whole(&path.key("max_tokens"), raw.max_tokens, DEFAULT_MAX_TOKENS, 1..=MAX_TOKENS);
    let context_path = path.key("context_tokens");
    let context_tokens = raw
        .context_tokens
        .map(|given| checker.whole(&context_path, Some(given), 1, 1..=MAX_TOKENS));
    let provider = provider?;
    Some(Model {
        provider,
        name: name?,
        base_url: base_url.unwrap_or_else(|| Some(provider.base_url().to_owned()))?,
        api_key_env,
        max_tokens,
        context_tokens,
        fallback: Vec::new(),
    })
}

/// An absolute http or https URL without credentials, query and fragment.
fn base_url(checker: &mut Checker<'_>, path: &FieldPath, text: &str) -> Option<String> {
    let fault = url_fault(text);
    if let Some(fault) = fault {
        checker.fault(&path.key("base_url"), fault);
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}

/// What is wrong with the URL of an API; it may have a path.
pub(super) fn url_fault(text: &str) -> Option<&'static str> {
    let Ok(url) = Url::parse(text) else {
        return Some("must be an absolute URL like https://host/v1");
    };
    if text.len() > MAX_TEXT_BYTES {
        Some("is too long for a URL")
    } else if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        Some("must begin with https:// or http://")
    } else if !url.username().is_empty() || url.password().is_some() {
        Some("must have no user name and no password; a key is given by the name of its variable")
    } else if url.query().is_some() || url.fragment().is_some() {
        Some("must have no query and no fragment")
    } else {
        None
    }
}

/// Scheme, host and port.
fn host(url: &str) -> Option<(String, String, u16)> {
    let url = Url::parse(url).ok()?;
    Some((url.scheme().to_owned(), url.host_str()?.to_owned(), url.port_or_known_default()?))
}
