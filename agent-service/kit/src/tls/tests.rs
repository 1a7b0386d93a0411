use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConnection};

use super::*;

/// A folder with `cert.pem` and `key.pem`, and new ones on demand.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.renew();
        files
    }

    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(["agent.example".to_owned()]).unwrap();
        std::fs::write(self.cert(), made.cert.pem()).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
    }

    fn cert(&self) -> PathBuf {
        self.0.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    fn load(&self) -> Arc<ServerCertificate> {
        ServerCertificate::load(&self.cert(), &self.key()).unwrap()
    }

    fn client(&self) -> ClientConnection {
        connection(&self.client_config())
    }

    fn client_config(&self) -> Arc<ClientConfig> {
        install_provider();
        let mut config = ClientConfig::builder()
            .with_root_certificates(trust_only(&self.cert()).unwrap())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn connection(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("agent.example").unwrap();
    ClientConnection::new(Arc::clone(config), name).unwrap()
}

/// Shakes hands in memory; the client's view of it, or why it refuses.
fn shake_hands(
    mut client: ClientConnection,
    config: &Arc<ServerConfig>,
) -> Result<ClientConnection, rustls::Error> {
    let mut server = ServerConnection::new(Arc::clone(config))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client
                .write_tls(&mut bytes)
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            server
                .read_tls(&mut rest)
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server
                .write_tls(&mut bytes)
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            client
                .read_tls(&mut rest)
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            client.process_new_packets()?;
        }
    }
    Ok(client)
}

#[test]
fn a_client_that_trusts_the_file_gets_http_1_1_and_no_other_protocol() {
    let files = Files::new();
    let client = shake_hands(files.client(), &server_config(files.load())).unwrap();
    assert_eq!(client.alpn_protocol(), Some(b"http/1.1".as_slice()));
}

#[test]
fn a_client_that_trusts_another_file_refuses() {
    let (files, other) = (Files::new(), Files::new());
    assert!(shake_hands(other.client(), &server_config(files.load())).is_err());
}

#[test]
fn new_files_are_served_after_a_reload_and_the_old_ones_until_then() {
    let files = Files::new();
    let certificate = files.load();
    let config = server_config(Arc::clone(&certificate));
    assert_eq!(certificate.reload().unwrap(), Reload::Same);
    let old = files.client();
    files.renew();
    assert!(shake_hands(files.client(), &config).is_err());
    assert_eq!(certificate.reload().unwrap(), Reload::Changed);
    shake_hands(files.client(), &config).unwrap();
    assert!(shake_hands(old, &config).is_err());
}

#[test]
fn a_client_that_was_here_before_looks_at_the_new_certificate() {
    let files = Files::new();
    let certificate = files.load();
    let config = server_config(Arc::clone(&certificate));
    // One client keeps what it needs to resume a session, over all of its connections.
    let client = files.client_config();
    for _ in 0..2 {
        shake_hands(connection(&client), &config).unwrap();
    }
    files.renew();
    certificate.reload().unwrap();
    assert!(shake_hands(connection(&client), &config).is_err());
}

#[test]
fn a_broken_new_file_leaves_the_old_certificate_in_use() {
    let files = Files::new();
    let certificate = files.load();
    let config = server_config(Arc::clone(&certificate));
    let old_key = std::fs::read(files.key()).unwrap();
    let (first, second) = (files.client(), files.client());
    // Half of a renewal: the certificate is there, the key is not yet.
    files.renew();
    let new_key = std::fs::read(files.key()).unwrap();
    std::fs::write(files.key(), &old_key).unwrap();
    let error = certificate.reload().unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    shake_hands(first, &config).unwrap();
    std::fs::write(files.key(), "").unwrap();
    let error = certificate.reload().unwrap_err();
    assert!(matches!(error, Error::Nothing { what: "key", .. }), "{error}");
    shake_hands(second, &config).unwrap();
    std::fs::write(files.key(), &new_key).unwrap();
    assert_eq!(certificate.reload().unwrap(), Reload::Changed);
    shake_hands(files.client(), &config).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_running_server_takes_new_files_by_itself_until_it_stops() {
    let files = Files::new();
    let certificate = files.load();
    let config = server_config(Arc::clone(&certificate));
    let tasks = crate::Tasks::new();
    tasks.spawn(Arc::clone(&certificate).keep_fresh(tasks.soft_stop().clone()));
    files.renew();
    while shake_hands(files.client(), &config).is_err() {
        tokio::time::sleep(RELOAD_EVERY).await;
    }
    tasks.request_soft_stop();
    tasks.finish().await;
}

#[test]
fn errors_name_the_file_and_what_it_lacks() {
    let files = Files::new();
    let (cert, key) = (files.cert(), files.key());
    let missing = files.0.path().join("none.pem");
    let fault =
        |cert: &Path, key: &Path| ServerCertificate::load(cert, key).unwrap_err().to_string();
    assert_eq!(
        fault(&missing, &key),
        format!("cannot read the certificate file {}", missing.display())
    );
    assert_eq!(fault(&cert, &missing), format!("cannot read the key file {}", missing.display()));
    assert_eq!(
        fault(&key, &key),
        format!(
            "the certificate file {} has no PEM block `-----BEGIN CERTIFICATE-----`",
            key.display()
        )
    );
    assert_eq!(
        fault(&cert, &cert),
        format!("the key file {} has no PEM block `-----BEGIN PRIVATE KEY-----`", cert.display())
    );
    std::fs::write(&cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    assert_eq!(
        trust_only(&cert).unwrap_err().to_string(),
        format!("the certificate file {} cannot be used as a CA", cert.display())
    );
}
