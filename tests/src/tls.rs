//! A private certificate authority, the certificates that it gives, and clients that trust it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// A certificate authority of one test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// A new one, called `name`.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = called(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("generate a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("sign an authority");
        Self { issuer }
    }

    /// Its certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for `localhost` and 127.0.0.1.
    pub fn identity(&self) -> Identity {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names of a certificate");
        params.distinguished_name = called("service under test");
        let key = KeyPair::generate().expect("generate a key");
        let cert = params.signed_by(&key, &self.issuer).expect("sign a certificate");
        Identity { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// What a client needs that trusts this authority alone.
    pub fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let der: CertificateDer<'static> = self.issuer.der().clone();
        roots.add(der).expect("trust an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the usual versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        // A resumed session shows no certificate, and these tests are about certificates.
        config.resumption = Resumption::disabled();
        Arc::new(config)
    }
}

fn called(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
