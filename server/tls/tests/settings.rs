//! Valid and invalid key stores and trust stores. An error must name the config or the file.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ca, Link, NOW, Pair, ca, client_config, pair, params, settings, signed};
use muster_tls::{ClientAuth, NameChanges, Settings, Tls};
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::pem::{LineEnding, encode_string};
use rcgen::{CustomExtension, DnType, DnValue, date_time_ymd};
use rustls::version::TLS13;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A temporary directory with files.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> Option<PathBuf> {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        Some(path)
    }
}

fn with_key_store(kind: &str, location: Option<PathBuf>) -> Settings {
    let mut settings = Settings::default();
    settings.key_store.kind = kind.into();
    settings.key_store.location = location;
    settings
}

fn connects(ca: &Ca, tls: &Tls) {
    let config = Arc::new(client_config(ca, &[&TLS13], None));
    Link::new(tls, &config).connect().unwrap();
}

fn refused(settings: &Settings) -> String {
    settings.load(NOW).unwrap_err().to_string()
}

/// A PKCS#12 store with a key and its certificate, as `keytool` writes it.
fn pkcs12(pair: &Pair, password: &str) -> Vec<u8> {
    let key = PrivateKey::from_der(&pair.key_der).unwrap();
    let certificate = Certificate::from_der(&pair.certificate_der).unwrap();
    let mut store = KeyStore::new();
    let chain = PrivateKeyChain::new("id", key, [certificate]);
    store.add_entry("server", KeyStoreEntry::PrivateKeyChain(chain));
    store.writer(password).encryption_iterations(100).mac_iterations(100).write().unwrap()
}

fn encrypted(pair: &Pair, password: &str) -> String {
    let key = PrivateKeyInfoRef::try_from(&pair.key_der[..]).unwrap();
    let der = key.encrypt(password).unwrap();
    encode_string("ENCRYPTED PRIVATE KEY", LineEnding::LF, der.as_bytes()).unwrap()
}

#[test]
fn keys_are_read_from_files_and_configs() {
    let (files, ca) = (Files::new(), ca("ca"));
    let pair = pair(&ca, "server");
    connects(&ca, &settings(&pair).load(NOW).unwrap());
    let both = format!("{}{}", pair.key, pair.certificate);
    connects(&ca, &with_key_store("PEM", files.put("a.pem", both)).load(NOW).unwrap());
    let mut one_line = settings(&pair);
    one_line.key_store.key = Some(pair.key.replace('\n', " "));
    connects(&ca, &one_line.load(NOW).unwrap());
    let secret = format!("{}{}", encrypted(&pair, "secret"), pair.certificate);
    let mut settings = with_key_store("PEM", files.put("b.pem", secret));
    settings.key_store.key_password = Some("secret".into());
    connects(&ca, &settings.load(NOW).unwrap());
    for kind in ["PKCS12", "JKS"] {
        let mut settings = with_key_store(kind, files.put("c.p12", pkcs12(&pair, "changeit")));
        settings.key_store.password = Some("changeit".into());
        connects(&ca, &settings.load(NOW).unwrap());
    }
}

#[test]
fn what_is_wrong_with_a_key_store_is_named() {
    let (files, ca) = (Files::new(), ca("ca"));
    let (good, other) = (pair(&ca, "server"), pair(&ca, "other"));
    let expired = |(from, to): ((i32, u8), (i32, u8))| {
        let mut params = params("old");
        params.not_before = date_time_ymd(from.0, from.1, 1);
        params.not_after = date_time_ymd(to.0, to.1, 1);
        let pair = signed(&ca, &params);
        format!("{}{}", pair.key, pair.certificate)
    };
    let pem = |text: String| with_key_store("PEM", files.put("x.pem", text));
    let encrypted = format!("{}{}", encrypted(&good, "secret"), good.certificate);
    let mut wrong = pem(encrypted.clone());
    let cases = [
        (refused(&with_key_store("PEM", Some("/none.pem".into()))), "/none.pem: No such file"),
        (refused(&pem("hello".into())), "it is not PEM"),
        (refused(&pem(good.key.clone())), "no certificate"),
        (refused(&pem(good.certificate.clone())), "no private key"),
        (refused(&pem(format!("{}{}", other.key, good.certificate))), "the key does not fit"),
        (refused(&pem(expired(((2020, 1), (2021, 5))))), "CN=old expired at May  1"),
        (refused(&pem(expired(((2090, 1), (2091, 5))))), "CN=old is valid only from Jan  1"),
        (refused(&pem(encrypted)), "ssl.key.password is missing"),
    ];
    for (error, words) in cases {
        assert!(error.contains(words), "{error}, not {words}");
        assert!(error.starts_with("ssl.keystore.location=/"), "{error}");
    }
    files.put("x.pem", format!("{}{}", self::encrypted(&good, "secret"), good.certificate));
    wrong.key_store.key_password = Some("guess".into());
    let error = refused(&wrong);
    assert!(error.contains("cannot be decrypted") && !error.contains("guess"), "{error}");
}

#[test]
fn what_is_wrong_with_a_pkcs12_store_is_named() {
    let (files, ca) = (Files::new(), ca("ca"));
    let store = pkcs12(&pair(&ca, "server"), "changeit");
    let mut settings = with_key_store("PKCS12", files.put("x.p12", &store));
    assert!(refused(&settings).contains("ssl.keystore.password is missing"));
    settings.key_store.password = Some("guess".into());
    let error = refused(&settings);
    assert!(error.ends_with("x.p12: its password is wrong"), "{error}");
    files.put("x.p12", &store[..store.len() / 2]);
    assert!(refused(&settings).contains("not a PKCS#12 file, or it is damaged"));
    files.put("x.p12", [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]);
    assert!(refused(&settings).contains("keytool -importkeystore"));
    assert!(refused(&with_key_store("BKS", None)).contains("BKS: there are PEM and PKCS12"));
    assert!(refused(&with_key_store("JKS", None)).contains("needs a key store"));
}

#[test]
fn trust_stores_are_read_from_files_and_configs() {
    let (files, ca, own) = (Files::new(), ca("ca"), ca("own"));
    let mut settings = settings(&pair(&ca, "server"));
    settings.client_auth = ClientAuth::Required;
    assert!(refused(&settings).starts_with("ssl.truststore.location: ssl.client.auth"));
    let mut store = KeyStore::new();
    for (alias, ca) in [("a", &ca), ("b", &own)] {
        let certificate = Certificate::from_der(ca.der()).unwrap();
        store.add_entry(alias, KeyStoreEntry::Certificate(certificate));
    }
    let store = store.writer("changeit").encryption_iterations(9).mac_iterations(9).write();
    settings.trust_store.kind = "PKCS12".into();
    settings.trust_store.location = files.put("trust.p12", store.unwrap());
    settings.trust_store.password = Some("changeit".into());
    let client = Arc::new(client_config(&ca, &[&TLS13], Some(&pair(&own, "client"))));
    Link::new(&settings.load(NOW).unwrap(), &client).connect().unwrap();
    settings.trust_store.kind = "PEM".into();
    settings.trust_store.location = files.put("trust.pem", format!("{}{}", ca.pem(), own.pem()));
    assert!(refused(&settings).starts_with("ssl.truststore.password: a PEM file has no password"));
    settings.trust_store.password = None;
    Link::new(&settings.load(NOW).unwrap(), &client).connect().unwrap();
}

#[test]
fn operators_are_warned() {
    let (files, ca) = (Files::new(), ca("ca"));
    let pair = pair(&ca, "server");
    let path = files.put("a.pem", format!("{}{}", pair.key, pair.certificate));
    let settings = with_key_store("PEM", path.clone());
    assert_eq!(settings.load(NOW).unwrap().warnings, Vec::<String>::new());
    std::fs::set_permissions(path.unwrap(), PermissionsExt::from_mode(0o644)).unwrap();
    let tls = settings.load(NOW).unwrap();
    let end = tls.expires_at;
    assert!(
        tls.warnings[0]
            .ends_with("all users may access it (mode 644): chmod o= protects its private key")
    );
    assert_eq!(tls.expiry_warning(end - 31 * 86_400), None);
    let warning = tls.expiry_warning(end - 29 * 86_400 - 1);
    assert_eq!(warning.as_deref(), Some("the certificate expires in 29 days"));
    assert!(settings.load(end - 3 * 86_400).unwrap().warnings[1].ends_with("expires in 3 days"));
}

/// The expected names were printed by Java's `X500Principal.getName()` for the same certificate.
#[test]
fn names_are_those_of_java() {
    let ca = ca("ca");
    let mut params = params("Doe, \"John\" + <x>");
    let name = &mut params.distinguished_name;
    name.push(DnType::OrganizationalUnitName, " Grün;#=\\ ");
    name.push(DnType::OrganizationName, DnValue::PrintableString("Example".try_into().unwrap()));
    name.push(DnType::CountryName, "DE");
    name.push(DnType::from_oid(&[1, 2, 840, 113_549, 1, 9, 1]), "me@example.org");
    name.push(DnType::from_oid(&[0, 9, 2342, 19_200_300, 100, 1, 25]), "org");
    name.push(DnType::from_oid(&[0, 9, 2342, 19_200_300, 100, 1, 1]), "jd");
    params.custom_extensions = Vec::<CustomExtension>::new();
    let tls = settings(&pair(&ca, "server")).load(NOW).unwrap();
    let pair = signed(&ca, &params);
    if let Ok(path) = std::env::var("MUSTER_PRINT_CERTIFICATE") {
        std::fs::write(path, &pair.certificate).unwrap();
    }
    assert_eq!(
        tls.principal(&pair.certificate_der).unwrap(),
        "UID=jd,DC=org,1.2.840.113549.1.9.1=#0c0e6d65406578616d706c652e6f7267,C=DE,O=Example,\
         OU=\\ Grün\\;\\#\\=\\\\\\ ,CN=Doe\\, \\\"John\\\" \\+ \\<x\\>"
    );
    assert!(tls.principal(b"no certificate").is_err());
}

/// The settings with a certificate for these names.
fn named(ca: &Ca, name: &str, alternative: &[&str]) -> Settings {
    let mut params = params(name);
    let names = alternative.iter().map(|it| (*it).to_owned());
    params.subject_alt_names =
        rcgen::CertificateParams::new(names.collect::<Vec<_>>()).unwrap().subject_alt_names;
    settings(&signed(ca, &params))
}

#[test]
fn a_replacement_has_the_names_that_there_were() {
    let ca = ca("ca");
    let before = named(&ca, "server", &["a.example.org", "10.0.0.1"]).load(NOW).unwrap();
    let replaced = |mut after: Settings, subject, alternative| {
        after.name_changes = NameChanges { subject, alternative };
        after.load_instead(&before, NOW).map(drop).map_err(|error| error.to_string())
    };
    let same = || named(&ca, "SERVER", &["10.0.0.1", "b.example.org", "a.example.org"]);
    assert_eq!(replaced(same(), false, false), Ok(()));
    let other = || named(&ca, "other", &["a.example.org", "10.0.0.1"]);
    let error = replaced(other(), false, true).unwrap_err();
    assert!(error.contains("DistinguishedName does not match: existing=CN=server,"), "{error}");
    assert_eq!(replaced(other(), true, false), Ok(()));
    let fewer = || named(&ca, "server", &["b.example.org", "10.0.0.1"]);
    let error = replaced(fewer(), true, false).unwrap_err();
    let words = "existing=[10.0.0.1, a.example.org], new=[10.0.0.1, b.example.org]";
    assert!(error.contains(words), "{error}");
    assert_eq!(replaced(fewer(), false, true), Ok(()));
}

#[test]
fn a_replacement_is_checked_as_at_the_start_and_adds_no_trust_store() {
    let (files, ca) = (Files::new(), ca("ca"));
    let pair = pair(&ca, "server");
    let before = settings(&pair).load(NOW).unwrap();
    let replaced = |after: &Settings, before: &Tls| {
        after.load_instead(before, NOW).map(drop).map_err(|error| error.to_string())
    };
    let mut other_key = settings(&pair);
    other_key.key_store.key = Some(common::pair(&ca, "server").key);
    let error = replaced(&other_key, &before).unwrap_err();
    assert!(error.contains("the key does not fit the certificate"), "{error}");

    let mut trusting = settings(&pair);
    trusting.trust_store.certificates = Some(ca.pem());
    let error = replaced(&trusting, &before).unwrap_err();
    assert!(error.starts_with("ssl.truststore: a listener"), "{error}");
    let trusted = trusting.load(NOW).unwrap();
    assert_eq!(replaced(&trusting, &trusted), Ok(()));
    trusting.trust_store.certificates = None;
    trusting.trust_store.location = files.put("bad.pem", "nonsense");
    let error = replaced(&trusting, &trusted).unwrap_err();
    assert!(error.contains("bad.pem"), "checked although no client is asked: {error}");
}
