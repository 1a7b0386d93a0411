//! TLS: certificates from PEM files, for servers (reloaded while they run) and for clients.
//!
//! All cryptography is ring's, installed once for the process. A server's certificate is read again
//! every few seconds, so that a renewal needs no restart; new files that are broken, or of which only
//! one is new yet, leave the old certificate in place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio_util::sync::CancellationToken;

/// How often the files of a server's certificate are looked at. Ours: soon enough for a person who
/// renews one, and two small files cost nothing.
const RELOAD_EVERY: Duration = Duration::from_secs(5);

/// What is wrong with a file of certificates or with a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read the {what} file {}", file.display())]
    Unreadable {
        /// "certificate" or "key".
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has no PEM block of the kind that is needed.
    #[error("the {what} file {} has no PEM block `-----BEGIN {block}-----`", file.display())]
    Nothing {
        /// "certificate" or "key".
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// What the block begins with.
        block: &'static str,
    },
    /// A certificate in it is none, or is none that can sign others where that is needed.
    #[error("the certificate file {} cannot be used as a CA", file.display())]
    BadCa {
        /// The file.
        file: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// Both are readable and do not fit.
    #[error(
        "the certificate file {} and the key file {} do not go together", cert.display(), key.display()
    )]
    Mismatch {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// Makes ring the cryptography of this process; more than once is as good as once.
pub fn install_provider() {
    // An error says only that there is one already, and this is the one place that installs any.
    rustls::crypto::ring::default_provider().install_default().ok();
}

/// Reads the certificates of a PEM file, in their order; at least one.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read("certificate", file)?;
    let certificates: Result<Vec<_>, _> = rustls_pemfile::certs(&mut text.as_slice()).collect();
    let certificates = certificates.map_err(|source| Error::Unreadable {
        what: "certificate",
        file: file.to_owned(),
        source,
    })?;
    if certificates.is_empty() {
        let file = file.to_owned();
        return Err(Error::Nothing { what: "certificate", file, block: "CERTIFICATE" });
    }
    Ok(certificates)
}

/// Reads the first private key of a PEM file (PKCS#8, PKCS#1 or SEC1).
pub fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let text = read("key", file)?;
    rustls_pemfile::private_key(&mut text.as_slice())
        .map_err(|source| Error::Unreadable { what: "key", file: file.to_owned(), source })?
        .ok_or_else(|| Error::Nothing { what: "key", file: file.to_owned(), block: "PRIVATE KEY" })
}

/// The certificates of a file as the only ones that are trusted.
pub fn trust_only(file: &Path) -> Result<RootCertStore, Error> {
    let mut trusted = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        trusted
            .add(certificate)
            .map_err(|source| Error::BadCa { file: file.to_owned(), source })?;
    }
    Ok(trusted)
}

/// The settings of a TLS server: TLS 1.2 and 1.3, HTTP/1.1 only, no client certificates.
///
/// Sessions are not resumed: a client that resumes one does not look at the certificate, and so would
/// go on with one that was replaced.
pub fn server_config(certificate: Arc<ServerCertificate>) -> Arc<ServerConfig> {
    install_provider();
    let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// A server's certificate and key, and the files that they come from.
#[derive(Debug)]
pub struct ServerCertificate {
    cert_file: PathBuf,
    key_file: PathBuf,
    current: ArcSwap<CertifiedKey>,
    /// What was read last and what came of it, so that each change is told once.
    last: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    pair: Pair,
    fault: Option<String>,
}

#[derive(PartialEq, Eq)]
struct Pair {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("chain", &self.chain.len()).finish_non_exhaustive()
    }
}

/// What a reload found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// The files hold what is in use.
    Same,
    /// New connections get the new certificate.
    Changed,
}

impl ServerCertificate {
    /// Reads both files.
    pub fn load(cert_file: &Path, key_file: &Path) -> Result<Arc<Self>, Error> {
        install_provider();
        let pair = Pair::read(cert_file, key_file)?;
        let current = pair.certified(cert_file, key_file)?;
        Ok(Arc::new(Self {
            cert_file: cert_file.to_owned(),
            key_file: key_file.to_owned(),
            current: ArcSwap::from_pointee(current),
            last: Mutex::new(Seen { pair, fault: None }),
        }))
    }

    /// Reads both files again; connections that stand keep the certificate that they have.
    ///
    /// # Errors
    /// The files are of no use; the certificate that is in use stays so.
    pub fn reload(&self) -> Result<Reload, Error> {
        let pair = Pair::read(&self.cert_file, &self.key_file)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if pair == last.pair {
            return Ok(Reload::Same);
        }
        self.current.store(Arc::new(pair.certified(&self.cert_file, &self.key_file)?));
        last.pair = pair;
        Ok(Reload::Changed)
    }

    /// Reloads every few seconds until `stop`, and logs what it finds, each fault once.
    ///
    /// Dropping it half-way is safe.
    pub async fn keep_fresh(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RELOAD_EVERY) => {}
            }
            let certificate = Arc::clone(&self);
            // The files may be on a slow disk. A panic in there is told by the runtime.
            tokio::task::spawn_blocking(move || certificate.reload_and_tell()).await.ok();
        }
    }

    fn reload_and_tell(&self) {
        let fault = match self.reload() {
            Ok(Reload::Same) => None,
            Ok(Reload::Changed) => {
                tracing::info!(file = %self.cert_file.display(), "certificate reloaded");
                None
            }
            Err(error) => Some((error.to_string(), error)),
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let text = fault.as_ref().map(|(text, _)| text.clone());
        if let Some((_, error)) = fault
            && last.fault != text
        {
            let cause: &(dyn std::error::Error + 'static) = &error;
            tracing::warn!(error = cause, "certificate not reloaded; the old one stays in use");
        }
        last.fault = text;
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Pair {
    fn read(cert_file: &Path, key_file: &Path) -> Result<Self, Error> {
        Ok(Self { chain: read_certificates(cert_file)?, key: read_key(key_file)? })
    }

    fn certified(&self, cert_file: &Path, key_file: &Path) -> Result<CertifiedKey, Error> {
        let provider: CryptoProvider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(self.chain.clone(), self.key.clone_key(), &provider).map_err(
            |source| Error::Mismatch {
                cert: cert_file.to_owned(),
                key: key_file.to_owned(),
                source,
            },
        )
    }
}

fn read(what: &'static str, file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|source| Error::Unreadable { what, file: file.to_owned(), source })
}

#[cfg(test)]
mod tests;
