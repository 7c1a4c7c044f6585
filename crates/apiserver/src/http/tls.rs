//! How do clients know that this is their server, and how does it know them?
//!
//! A state directory holds a certificate authority of its own, a serving certificate signed by
//! it, and the administrator's token; the kubeconfig carries what a client needs of these. All
//! files are readable by their owner only. The authority stays as long as it is valid; the serving
//! certificate is renewed when it expires or when the server gets new names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::source::Ids;

const AUTHORITY: &str = "tidepool-ca";

/// How long a fresh authority and a fresh serving certificate are good for.
fn lifetimes() -> (Span, Span) {
    (10.years(), 1.years())
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot use the serving certificate")]
    Tls(#[from] rustls::Error),
    #[error("cannot read PEM")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("{moment} is beyond the calendar")]
    Calendar { moment: Timestamp },
}

/// What a server shows and what it asks for.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The authority's certificate, which clients trust.
    pub authority: String,
    certificate: String,
    key: String,
    /// The administrator's bearer token.
    pub token: String,
}

/// What the files are good for; kept beside them so that nobody has to read certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Facts {
    authority_until: Timestamp,
    serving_until: Timestamp,
    names: Vec<String>,
}

/// A certificate and its key as PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Credentials {
    /// Credentials that are gone with the process.
    pub fn ephemeral(
        names: &[String],
        ids: &dyn Ids,
        now: Timestamp,
    ) -> Result<Self, CredentialError> {
        let (authority_life, serving_life) = lifetimes();
        let key = KeyPair::generate()?;
        let (certificate, params) = make_authority(&key, now, authority_life)?;
        let serving = make_serving(params, key, names, now, serving_life)?;
        Ok(Self {
            authority: certificate,
            certificate: serving.certificate,
            key: serving.key,
            token: ids.secret(),
        })
    }

    /// Credentials kept in a directory; what is missing, expired or made for other names is made
    /// anew.
    pub fn load_or_create(
        dir: &Path,
        names: &[String],
        ids: &dyn Ids,
        now: Timestamp,
    ) -> Result<Self, CredentialError> {
        fs::create_dir_all(dir)
            .map_err(|source| CredentialError::Write { path: dir.to_owned(), source })?;
        let (authority_life, serving_life) = lifetimes();
        let mut facts: Option<Facts> =
            read(&dir.join("certificates.json"))?.and_then(|text| serde_json::from_str(&text).ok());
        let authority = read_pair(dir, "ca")?
            .filter(|_| facts.as_ref().is_some_and(|facts| facts.authority_until > now));
        let authority = match authority {
            Some(pair) => pair,
            None => {
                let key = KeyPair::generate()?;
                let (certificate, _) = make_authority(&key, now, authority_life)?;
                let pair = Pair { certificate, key: key.serialize_pem() };
                write_pair(dir, "ca", &pair)?;
                facts = None;
                pair
            }
        };
        let current =
            facts.as_ref().is_some_and(|facts| facts.serving_until > now && facts.names == names);
        let serving = match read_pair(dir, "apiserver")?.filter(|_| current) {
            Some(pair) => pair,
            None => {
                let params = authority_params(now, authority_life)?;
                let key = KeyPair::from_pem(&authority.key)?;
                let pair = make_serving(params, key, names, now, serving_life)?;
                write_pair(dir, "apiserver", &pair)?;
                let facts = Facts {
                    authority_until: facts.map_or_else(
                        || later(now, authority_life),
                        |facts| Ok(facts.authority_until),
                    )?,
                    serving_until: later(now, serving_life)?,
                    names: names.to_vec(),
                };
                write(&dir.join("certificates.json"), &json!(facts).to_string())?;
                pair
            }
        };
        let token = match read(&dir.join("token"))?.map(|text| text.trim().to_owned()) {
            Some(token) if !token.is_empty() => token,
            _ => {
                let token = ids.secret();
                write(&dir.join("token"), &token)?;
                token
            }
        };
        Ok(Self {
            authority: authority.certificate,
            certificate: serving.certificate,
            key: serving.key,
            token,
        })
    }

    /// What a listener needs.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, CredentialError> {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A kubeconfig for a server at `url`.
    pub fn kubeconfig(&self, url: &str) -> String {
        let authority = STANDARD.encode(&self.authority);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tidepool", "cluster": {
                "server": url,
                "certificate-authority-data": authority,
            }}],
            "users": [{"name": "tidepool", "user": {"token": self.token}}],
            "contexts": [{"name": "tidepool", "context": {
                "cluster": "tidepool",
                "user": "tidepool",
                "namespace": "default",
            }}],
            "current-context": "tidepool",
        });
        serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
    }

    /// Writes the kubeconfig into a directory and says where.
    pub fn write_kubeconfig(&self, dir: &Path, url: &str) -> Result<PathBuf, CredentialError> {
        let path = dir.join("kubeconfig");
        write(&path, &self.kubeconfig(url))?;
        Ok(path)
    }
}

fn day(moment: Timestamp) -> Date {
    moment.to_zoned(TimeZone::UTC).date()
}

fn later(now: Timestamp, life: Span) -> Result<Timestamp, CredentialError> {
    let calendar = CredentialError::Calendar { moment: now };
    let Ok(end) = day(now).checked_add(life) else { return Err(calendar) };
    end.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).map_err(|_| calendar)
}

/// Validity in whole days, from yesterday so that a clock a little behind does not matter.
fn set_validity(
    params: &mut CertificateParams,
    now: Timestamp,
    life: Span,
) -> Result<(), CredentialError> {
    let calendar = |_| CredentialError::Calendar { moment: now };
    let start = day(now).yesterday().map_err(calendar)?;
    let end = day(later(now, life)?);
    let ymd = |date: Date| {
        let part = |value: i8| u8::try_from(value).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    (params.not_before, params.not_after) = (ymd(start), ymd(end));
    Ok(())
}

fn authority_params(now: Timestamp, life: Span) -> Result<CertificateParams, CredentialError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, now, life)?;
    Ok(params)
}

fn make_authority(
    key: &KeyPair,
    now: Timestamp,
    life: Span,
) -> Result<(String, CertificateParams), CredentialError> {
    let params = authority_params(now, life)?;
    let certificate = params.self_signed(key)?;
    Ok((certificate.pem(), params))
}

fn make_serving(
    authority: CertificateParams,
    authority_key: KeyPair,
    names: &[String],
    now: Timestamp,
    life: Span,
) -> Result<Pair, CredentialError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "tidepool-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, life)?;
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn read(path: &Path) -> Result<Option<String>, CredentialError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CredentialError::Read { path: path.to_owned(), source }),
    }
}

fn read_pair(dir: &Path, name: &str) -> Result<Option<Pair>, CredentialError> {
    let certificate = read(&dir.join(format!("{name}.crt")))?;
    let key = read(&dir.join(format!("{name}.key")))?;
    Ok(certificate.zip(key).map(|(certificate, key)| Pair { certificate, key }))
}

fn write_pair(dir: &Path, name: &str, pair: &Pair) -> Result<(), CredentialError> {
    write(&dir.join(format!("{name}.crt")), &pair.certificate)?;
    write(&dir.join(format!("{name}.key")), &pair.key)
}

/// Replaces a file in one step; it is readable by its owner only from the first byte on.
fn write(path: &Path, text: &str) -> Result<(), CredentialError> {
    let replaced = reconcile::file::replace(path, text.as_bytes());
    replaced.map_err(|source| CredentialError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::http::source::RandomIds;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn credentials_last_until_something_changes() {
        let dir = tempfile::tempdir().unwrap();
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let load = |list: &[&str], now| {
            Credentials::load_or_create(dir.path(), &names(list), &RandomIds, now).unwrap()
        };
        let first = load(&["localhost"], now);
        let second = load(&["localhost"], now);
        assert_eq!((&first.certificate, &first.token), (&second.certificate, &second.token));

        let renamed = load(&["localhost", "127.0.0.1"], now);
        assert_ne!(renamed.certificate, first.certificate);
        assert_eq!((&renamed.authority, &renamed.token), (&first.authority, &first.token));

        let next_year: Timestamp = "2027-03-02T12:00:00Z".parse().unwrap();
        let renewed = load(&["localhost", "127.0.0.1"], next_year);
        assert_ne!(renewed.certificate, renamed.certificate);
        assert_eq!(renewed.authority, first.authority);

        let next_decade: Timestamp = "2037-03-01T12:00:00Z".parse().unwrap();
        assert_ne!(load(&["localhost"], next_decade).authority, first.authority);

        for file in fs::read_dir(dir.path()).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        renewed.server_config().unwrap();
    }

    #[test]
    fn the_kubeconfig_names_server_authority_and_token() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let credentials = Credentials::ephemeral(&names(&["localhost"]), &RandomIds, now).unwrap();
        let text = credentials.kubeconfig("https://127.0.0.1:6480");
        let config: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6480");
        assert_eq!(config["users"][0]["user"]["token"], credentials.token.as_str());
    }
}
