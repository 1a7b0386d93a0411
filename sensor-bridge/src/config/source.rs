//! Checks one source: its transport, and how its messages are read.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use service_kit::config::{FieldPath, nearest};

use super::{Checker, raw};
use crate::{
    decode::{LATER_PRESETS, PRESETS},
    source::file::Input,
};

/// The variable with the token of senders (BRIDGE.md section 1).
const LISTEN_TOKEN: &str = "SENSOR_BRIDGE_TOKEN";

/// One source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// Its name under `sources`.
    pub name: String,
    /// How its messages come.
    pub transport: Transport,
    /// How they are read: a name of [`PRESETS`].
    pub preset: String,
    /// The event source whatever the messages say.
    pub fixed_source: Option<String>,
    /// The worker's labels to ours.
    pub labels: BTreeMap<String, String>,
}

/// How messages come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// JSON lines from a file, a FIFO or standard input.
    File(Input),
    /// Posts of the worker.
    Listen {
        /// Where; sources may share it.
        address: SocketAddr,
        /// The variable with the senders' token.
        token_env: String,
        /// The certificate; required off loopback.
        tls: Option<TlsFiles>,
    },
}

/// A certificate and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Checker<'_> {
    pub(super) fn source(&mut self, name: &str, raw: &raw::Source) -> Option<SourceConfig> {
        let at = FieldPath::from("sources").key(name);
        let later = raw.later_keys();
        for key in &later {
            let served = "use file or listen, with preset native or frigate";
            self.fault(&at.key(key), format!("is not served by this version; {served}"));
        }
        if name.is_empty() || name.len() > 256 || name.contains('/') {
            self.fault(&at, "must have a name of 1 to 256 bytes without a slash");
            return None;
        }
        // Beside a key that is not served, what is missing is no news.
        let transport = if later.is_empty() { self.transport(&at, raw) } else { None };
        let preset =
            if later.contains(&"map") { None } else { self.preset(&at, raw.preset.as_deref()) };
        if raw.fixed.as_deref().is_some_and(|source| source.is_empty() || source.len() > 256) {
            self.fault(&at.key("source"), "must have 1 to 256 bytes");
            return None;
        }
        Some(SourceConfig {
            name: name.to_owned(),
            transport: transport?,
            preset: preset?,
            fixed_source: raw.fixed.clone(),
            labels: raw.labels.clone(),
        })
    }

    fn transport(&mut self, at: &FieldPath, raw: &raw::Source) -> Option<Transport> {
        let listen_keys = [
            ("token_env", raw.token_env.is_some()),
            ("tls_cert", raw.tls_cert.is_some()),
            ("tls_key", raw.tls_key.is_some()),
        ];
        match (&raw.file, &raw.listen) {
            (Some(file), None) => {
                for (key, _) in listen_keys.into_iter().filter(|(_, used)| *used) {
                    self.fault(&at.key(key), "belongs to `listen`; this source reads a file");
                }
                Some(Transport::File(self.input(&at.key("file"), file)))
            }
            (None, Some(listen)) => self.listen(at, listen, raw),
            (Some(_), Some(_)) => {
                self.fault(at, "must have one transport, but has file and listen");
                None
            }
            (None, None) => {
                self.fault(at, "must have a transport: file or listen");
                None
            }
        }
    }

    fn input(&mut self, at: &FieldPath, file: &str) -> Input {
        if file == "-" {
            return Input::Stdin;
        }
        let path = self.resolve(at, std::path::Path::new(file));
        if !path.exists() {
            self.warn(at, format!("is not there yet ({}); it is waited for", path.display()));
        }
        Input::Path(path)
    }

    fn listen(&mut self, at: &FieldPath, listen: &str, raw: &raw::Source) -> Option<Transport> {
        let address = self.address(&at.key("listen"), listen)?;
        let token_env = raw.token_env.clone().unwrap_or_else(|| LISTEN_TOKEN.to_owned());
        self.variable_name(&at.key("token_env"), &token_env)?;
        let resolve = |key: &str, path: &PathBuf| self.resolve(&at.key(key), path);
        let tls = match (&raw.tls_cert, &raw.tls_key) {
            (Some(cert), Some(key)) => {
                Some(TlsFiles { cert: resolve("tls_cert", cert), key: resolve("tls_key", key) })
            }
            (None, None) => None,
            (Some(_), None) => {
                self.fault(&at.key("tls_cert"), "needs `tls_key` beside it");
                return None;
            }
            (None, Some(_)) => {
                self.fault(&at.key("tls_key"), "needs `tls_cert` beside it");
                return None;
            }
        };
        if tls.is_none() && !address.ip().is_loopback() {
            let fault = "is not on loopback and so needs `tls_cert` and `tls_key`";
            self.fault(&at.key("listen"), fault);
            return None;
        }
        Some(Transport::Listen { address, token_env, tls })
    }

    fn preset(&mut self, at: &FieldPath, preset: Option<&str>) -> Option<String> {
        let known = || PRESETS.iter().map(|(name, _)| *name);
        let Some(preset) = preset else {
            self.fault(at, "needs `preset`: native or frigate");
            return None;
        };
        let at = at.key("preset");
        if known().any(|name| name == preset) {
            return Some(preset.to_owned());
        }
        let fault = if LATER_PRESETS.contains(&preset) {
            format!("is `{preset}`, which is not served by this version; use native or frigate")
        } else {
            match nearest(preset, known().chain(LATER_PRESETS.iter().copied())) {
                Some(near) => format!("is no preset: {preset:?}; did you mean `{near}`?"),
                None => format!("is no preset: {preset:?}; use native or frigate"),
            }
        };
        self.fault(&at, fault);
        None
    }

    /// Sources may share an address, but then also its certificate.
    pub(super) fn shared_addresses(&mut self, sources: &[SourceConfig]) {
        let mut known: BTreeMap<SocketAddr, (&str, Option<&TlsFiles>)> = BTreeMap::new();
        let mut stdin: Option<&str> = None;
        for source in sources {
            let at = FieldPath::from("sources").key(&source.name);
            match &source.transport {
                Transport::Listen { address, tls, .. } => {
                    let (first, shared) =
                        *known.entry(*address).or_insert((&source.name, tls.as_ref()));
                    if shared != tls.as_ref() {
                        let fault = format!(
                            "shares its address with {first:?}, so both need the same tls_cert and tls_key"
                        );
                        self.fault(&at.key("listen"), fault);
                    }
                }
                Transport::File(Input::Stdin) => {
                    if let Some(first) = stdin {
                        self.fault(
                            &at.key("file"),
                            format!("is `-`, which {first:?} reads already"),
                        );
                    }
                    stdin = Some(&source.name);
                }
                Transport::File(Input::Path(_)) => {}
            }
        }
    }
}
