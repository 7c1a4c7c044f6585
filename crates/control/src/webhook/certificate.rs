//! With which certificate do the webhooks answer?
//!
//! An authority of our own signs one serving certificate; both live in a
//! Secret that all replicas share. What is found there is used as long as it
//! is whole: the keys fit their certificates, the chain leads to the authority
//! for the name by which the API server calls, and all of it will still hold
//! in half a year. Otherwise it is made anew, under the same authority if that
//! has another year to live, so that the other replicas stay trusted.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::protocol::name::secret::{CA_CERT, CA_KEY, CERT, KEY, TLS_CERT, TLS_KEY};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use std::time::Duration;

const AUTHORITY: &str = "webhook-cert-ca";
const YEARS: i16 = 10;
/// A serving certificate is replaced this long before it ends, an authority a year before.
const SERVING_MARGIN_DAYS: i64 = 183;
const AUTHORITY_MARGIN_DAYS: i64 = 366;

/// Why there is no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot use the certificate")]
    Tls(#[from] rustls::Error),
    #[error("cannot read PEM")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("the authority does not work: {0}")]
    Authority(String),
    #[error("{0:?} is no name for a server")]
    Name(String),
    #[error("the calendar ends")]
    Calendar(#[from] jiff::Error),
}

/// Authority and serving certificate with their keys, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    ca_key: String,
    ca_cert: String,
    key: String,
    cert: String,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bundle")
    }
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Bundle {
    /// A new authority and a certificate for `name`.
    pub fn make(name: &str, now: Timestamp) -> Result<Self, CertificateError> {
        let ca_key = KeyPair::generate()?;
        let mut params = lived(CertificateParams::default(), now)?;
        params.distinguished_name.push(DnType::CommonName, AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_cert = params.self_signed(&ca_key)?.pem();
        let ca_text = ca_key.serialize_pem();
        let (cert, key) = sign(&Issuer::new(params, ca_key), name, now)?;
        Ok(Self { ca_key: ca_text, ca_cert, key, cert })
    }

    /// A certificate for `name` under the same authority, or under a new one if
    /// the authority is broken or near its end.
    pub fn renew(&self, name: &str, now: Timestamp) -> Result<Self, CertificateError> {
        match self.sign_again(name, now) {
            Ok(bundle) if bundle.judge(name, now).is_ok() => Ok(bundle),
            _ => Self::make(name, now),
        }
    }

    fn sign_again(&self, name: &str, now: Timestamp) -> Result<Self, CertificateError> {
        check_authority(&self.ca_cert, now, later(now, AUTHORITY_MARGIN_DAYS)?)?;
        let issuer = Issuer::from_ca_cert_pem(&self.ca_cert, KeyPair::from_pem(&self.ca_key)?)?;
        let (cert, key) = sign(&issuer, name, now)?;
        Ok(Self { cert, key, ..self.clone() })
    }

    /// What a Secret holds; `None` when a part is missing or its two copies differ.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
        let (key, cert) = (text(KEY)?, text(CERT)?);
        let is_whole = text(TLS_KEY)? == key && text(TLS_CERT)? == cert;
        let bundle = Self { ca_key: text(CA_KEY)?, ca_cert: text(CA_CERT)?, key, cert };
        is_whole.then_some(bundle)
    }

    /// What can be saved of a Secret: missing parts are empty and fit nothing.
    pub fn salvage(data: &BTreeMap<String, ByteString>) -> Self {
        let text = |name: &str| {
            let bytes = data.get(name).map(|bytes| bytes.0.clone()).unwrap_or_default();
            String::from_utf8(bytes).unwrap_or_default()
        };
        Self { ca_key: text(CA_KEY), ca_cert: text(CA_CERT), key: text(KEY), cert: text(CERT) }
    }

    /// What a Secret is to hold, and files in a directory.
    pub fn parts(&self) -> [(&'static str, &str); 6] {
        [
            (CA_KEY, &self.ca_key),
            (CA_CERT, &self.ca_cert),
            (KEY, &self.key),
            (TLS_KEY, &self.key),
            (CERT, &self.cert),
            (TLS_CERT, &self.cert),
        ]
    }

    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let parts = self.parts().into_iter();
        parts.map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_vec()))).collect()
    }

    /// The authority, as PEM.
    pub fn authority(&self) -> &str {
        &self.ca_cert
    }

    /// Is everything whole, and will it be for long enough?
    pub fn judge(&self, name: &str, now: Timestamp) -> Result<(), CertificateError> {
        let then = later(now, SERVING_MARGIN_DAYS)?;
        check_authority(&self.ca_cert, now, then)?;
        let chain = self.certified_key()?;
        let end_entity = chain.cert.first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let intermediates = chain.cert.get(1..).unwrap_or_default();
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| CertificateError::Name(name.to_owned()))?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(self.roots()?), provider())
                .build()
                .map_err(|error| CertificateError::Authority(error.to_string()))?;
        for moment in [now, then] {
            let seconds = u64::try_from(moment.as_second()).unwrap_or_default();
            let moment = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            verifier.verify_server_cert(end_entity, intermediates, &name, &[], moment)?;
        }
        Ok(())
    }

    /// Certificate and key for a listener; fails when they do not belong together.
    pub fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        certified_key(&self.cert, &self.key)
    }

    /// What a client must trust.
    pub fn roots(&self) -> Result<RootCertStore, CertificateError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca_cert.as_bytes())?)?;
        Ok(roots)
    }
}

/// Certificate and key for a listener, from PEM; fails when they do not belong together.
pub(crate) fn certified_key(cert: &str, key: &str) -> Result<CertifiedKey, CertificateError> {
    let chain = CertificateDer::pem_slice_iter(cert.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    Ok(CertifiedKey::from_der(chain, key, &provider())?)
}

fn later(now: Timestamp, days: i64) -> Result<Timestamp, CertificateError> {
    Ok(now.checked_add((days * 24).hours())?)
}

/// From yesterday, because clocks differ, for ten years.
fn lived(
    mut params: CertificateParams,
    now: Timestamp,
) -> Result<CertificateParams, CertificateError> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let (from, to) = (today.checked_sub(1.day())?, today.checked_add(i64::from(YEARS).years())?);
    let day = |date: jiff::civil::Date| {
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
    };
    (params.not_before, params.not_after) = (day(from), day(to));
    Ok(params)
}

/// A serving certificate and its key.
fn sign(
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    now: Timestamp,
) -> Result<(String, String), CertificateError> {
    let key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), name.to_owned()];
    let mut params = lived(CertificateParams::new(names)?, now)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let cert = params.signed_by(&key, issuer)?.pem();
    Ok((cert, key.serialize_pem()))
}

/// Is this an authority's certificate, and is it good from `now` until `then`?
fn check_authority(pem: &str, now: Timestamp, then: Timestamp) -> Result<(), CertificateError> {
    let bad = |why: &str| CertificateError::Authority(why.to_owned());
    let der = CertificateDer::from_pem_slice(pem.as_bytes())?;
    let (_, certificate) =
        x509_parser::parse_x509_certificate(&der).map_err(|_| bad("it is no certificate"))?;
    if !certificate.is_ca() {
        return Err(bad("its certificate is none of an authority"));
    }
    let validity = certificate.validity();
    if validity.not_before.timestamp() > now.as_second() {
        return Err(bad("its time has not come"));
    }
    if validity.not_after.timestamp() < then.as_second() {
        return Err(bad("it ends too soon"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "koordinator-webhook-service.koordinator-system.svc";

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn in_years(years: i64) -> Timestamp {
        later(now(), years * 365).unwrap()
    }

    #[test]
    fn a_fresh_bundle_is_good_for_years() {
        let bundle = Bundle::make(NAME, now()).unwrap();
        bundle.judge(NAME, now()).unwrap();
        bundle.judge(NAME, in_years(9)).unwrap();
        assert!(bundle.judge(NAME, in_years(10)).is_err());
        assert!(bundle.judge("other.svc", now()).is_err());
        assert_eq!(Bundle::read(&bundle.data()), Some(bundle));
    }

    #[test]
    fn addresses_are_names_too() {
        Bundle::make("127.0.0.1", now()).unwrap().judge("127.0.0.1", now()).unwrap();
    }

    #[test]
    fn what_is_not_whole_is_not_used() {
        let bundle = Bundle::make(NAME, now()).unwrap();
        for (part, _) in bundle.parts() {
            let mut data = bundle.data();
            data.remove(part);
            assert_eq!(Bundle::read(&data), None, "without {part}");
            let mut data = bundle.data();
            if let Some(text) = data.get_mut(part) {
                text.0.truncate(text.0.len() / 2);
            }
            let judged = Bundle::read(&data).map(|bundle| bundle.judge(NAME, now()).is_ok());
            let is_authority_key = part == CA_KEY;
            assert!(judged != Some(true) || is_authority_key, "half of {part}");
        }
        let other = Bundle::make(NAME, now()).unwrap();
        let foreign = Bundle { ca_cert: other.ca_cert.clone(), ..bundle.clone() };
        assert!(foreign.judge(NAME, now()).is_err(), "another authority");
        let foreign = Bundle { key: other.key, ..bundle };
        assert!(foreign.judge(NAME, now()).is_err(), "another key");
    }

    #[test]
    fn the_authority_is_kept_while_it_lives() {
        let bundle = Bundle::make(NAME, now()).unwrap();
        let renewed = bundle.renew("other.svc", in_years(5)).unwrap();
        assert_eq!(renewed.authority(), bundle.authority());
        renewed.judge("other.svc", in_years(5)).unwrap();
        let in_its_last_year = later(now(), 9 * 365 + 10).unwrap();
        let late = bundle.renew(NAME, in_its_last_year).unwrap();
        assert_ne!(late.authority(), bundle.authority());
        late.judge(NAME, in_years(18)).unwrap();
        let broken = Bundle { ca_key: "half".to_owned(), ..bundle.clone() };
        let repaired = broken.renew(NAME, now()).unwrap();
        repaired.judge(NAME, now()).unwrap();
        assert_ne!(repaired.authority(), bundle.authority());
    }
}
