//! TLS configs that clients alter (`kafka-configs --alter`).

use super::{Place, metadata};
use crate::support::offsets::{Ended, muster};
use crate::support::{Server, binary, rules, said};
use muster_codec::{ErrorCode, Response};
use rustls::pki_types::CertificateDer;
use rustls::version::TLS13;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOCATION: &str = "listener.name.outside.ssl.keystore.location";
const PASSWORD: &str = "listener.name.outside.ssl.key.password";
const CHANGED: &str = "listener OUTSIDE of shard 0 has the certificate that a client has set";

/// Sets or removes configs of the broker. Returns the error code and its message.
fn alter(server: &Server, all: &[(&str, Option<&str>)]) -> (ErrorCode, String) {
    let request = rules::alter_configs(rules::BROKER, "0", all);
    let Response::IncrementalAlterConfigs(response) = server.client(0).call(1, request.into())
    else {
        panic!("no answer");
    };
    let result = &response.responses[0];
    let words = result.error_message.as_deref().unwrap_or_default().to_owned();
    (ErrorCode::from_code(result.error_code).unwrap(), words)
}

fn served(place: &Place) -> CertificateDer<'static> {
    let mut client = place.connect(&TLS13, None);
    client.call(12, &metadata()).unwrap();
    client.certificate()
}

/// Waits until the server presents another certificate than `before`.
fn next(place: &Place, before: &CertificateDer<'_>) -> CertificateDer<'static> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = served(place);
        if now != *before {
            return now;
        }
        assert!(Instant::now() < deadline, "the certificate stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn put(place: &Place, file: &str, name: &str) -> String {
    let (key, certificate) = place.identity(name);
    let text = format!("{}{}", key.serialize_pem(), certificate.pem());
    std::fs::write(place.path(file), text).unwrap();
    place.path(file).display().to_string()
}

fn dump(data: &Path) -> String {
    said(&binary().args(["log", "dump"]).arg(data).output().unwrap())
}

#[test]
fn an_altered_certificate_is_served_and_outlives_a_restart() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let mut server = place.serve(data.path(), &[]);
    let fixed = served(&place);
    let mut open = place.connect(&TLS13, None);
    open.call(12, &metadata()).unwrap();
    let location = put(&place, "altered.pem", "server");
    let set = [(LOCATION, Some(&*location)), (PASSWORD, Some("unneeded secret"))];
    assert_eq!(alter(&server, &set), (ErrorCode::None, String::new()));
    let altered = next(&place, &fixed);
    server.says(CHANGED);
    open.call(12, &metadata()).unwrap();
    // Files that the server's own configs name no longer have an effect on the served certificate.
    place.put_key_store("server");
    server.says("loaded its certificate again");
    assert!(served(&place) == altered);

    server.kill();
    let server = place.serve(data.path(), &[]);
    assert!(served(&place) == altered, "from the first connection on");
    put(&place, "altered.pem", "server");
    assert_eq!(alter(&server, &[(LOCATION, Some(&*location))]).0, ErrorCode::None);
    let again = next(&place, &altered);
    let removed = [(LOCATION, None), (PASSWORD, None)];
    assert_eq!(alter(&server, &removed), (ErrorCode::None, String::new()));
    let last = next(&place, &again);
    assert!(last != fixed && last != altered, "that of the file of the server's configs");
    assert!(dump(data.path()).contains(PASSWORD) && !dump(data.path()).contains("secret"));
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_with_the_reason() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let server = place.serve(data.path(), &[]);
    let fixed = served(&place);
    std::fs::write(place.path("junk.pem"), "junk").unwrap();
    let junk = place.path("junk.pem").display().to_string();
    let other = put(&place, "other.pem", "other");
    for (location, reason) in [
        ("/none.pem", "listener OUTSIDE: ssl.keystore.location=/none.pem: No such file"),
        (&*junk, "junk.pem: it is not PEM"),
        (&*other, "the DistinguishedName does not match: existing=CN=server, new=CN=other"),
    ] {
        let (error, words) = alter(&server, &[(LOCATION, Some(location))]);
        assert_eq!(error, ErrorCode::InvalidRequest);
        assert!(words.starts_with("Validation of dynamic config update of SSLFactory failed: "));
        assert!(words.contains(reason), "{words}");
        assert!(served(&place) == fixed);
    }
}

/// A client sets a certificate, and its file is removed while the server does not run.
#[test]
fn the_certificate_of_the_configs_is_served_if_the_altered_one_is_bad_at_the_start() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let mut server = place.serve(data.path(), &["ssl.allow.dn.changes=true"]);
    let fixed = served(&place);
    let location = put(&place, "altered.pem", "other");
    assert_eq!(alter(&server, &[(LOCATION, Some(&*location))]).0, ErrorCode::None);
    next(&place, &fixed);
    server.kill();
    std::fs::remove_file(&location).unwrap();
    let server = place.serve(data.path(), &[]);
    server.says("listener OUTSIDE of shard 0 keeps its certificate, as the one that a client has");
    assert!(served(&place) == fixed);
    let location = put(&place, "altered.pem", "server");
    assert_eq!(alter(&server, &[(LOCATION, Some(&*location))]).0, ErrorCode::None);
    next(&place, &fixed);
}

/// Runs `muster config` for broker 0, with the file that the server is started with.
fn offline(data: &Path, file: &Path, words: &[&str]) -> Ended {
    let (action, words) = words.split_first().unwrap();
    let place = ["config", data.to_str().unwrap(), action, "--broker", "0"];
    muster(place.iter().chain(&["--config", file.to_str().unwrap()]).chain(words))
}

/// A stopped server. Returns the file of its configs.
fn stopped(place: &Place, data: &Path) -> PathBuf {
    let file = place.path("server.properties");
    std::fs::write(&file, place.arguments(&[]).join("\n")).unwrap();
    let mut server = place.serve(data, &[]);
    server.kill();
    file
}

#[test]
fn what_a_server_would_refuse_is_refused_while_none_runs() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let file = stopped(&place, data.path());
    std::fs::write(place.path("junk.pem"), "junk").unwrap();
    let junk = place.path("junk.pem").display().to_string();
    let other = put(&place, "other.pem", "other");
    let no_key = place.path("ca.pem").display().to_string();
    let of = |key: &str, value: &str| format!("listener.name.outside.ssl.{key}={value}");
    for (pair, reason) in [
        (of("keystore.location", "/none.pem"), "ssl.keystore.location=/none.pem: No such file"),
        (of("keystore.location", &junk), "junk.pem: it is not PEM"),
        (of("keystore.location", &no_key), "ca.pem: it has no private key"),
        (of("keystore.location", &other), "the DistinguishedName does not match"),
        (of("keystore.type", "PKCS12"), "server.pem: "),
        (of("truststore.location", "/none.pem"), "ssl.truststore.location=/none.pem: No such file"),
        (of("truststore.location", &junk), "junk.pem: it is not PEM"),
        ("listener.name.inside.ssl.keystore.location=/x".into(), "Cannot update these configs"),
    ] {
        let ended = offline(data.path(), &file, &["set", &pair]);
        assert_eq!(ended.status, 2, "{pair}");
        assert!(ended.error.contains(reason), "{pair}: {}", ended.error);
    }
    let listed = muster(["config", data.path().to_str().unwrap(), "list"]).out;
    assert!(!listed.contains("broker 0"), "{listed}");
}

#[test]
fn a_certificate_that_is_set_while_no_server_runs_is_served_by_the_next() {
    let (place, data) = (Place::new(), tempfile::tempdir().unwrap());
    let file = stopped(&place, data.path());
    let location = format!("{LOCATION}={}", put(&place, "altered.pem", "server"));
    let secrets = place.path("secrets.properties");
    std::fs::write(&secrets, format!("{PASSWORD}=unneeded secret\n")).unwrap();
    let words = ["set", "--add-config-file", secrets.to_str().unwrap(), &location];
    let ended = offline(data.path(), &file, &words);
    assert_eq!((ended.status, ended.error.as_str()), (0, ""));
    let listed = muster(["config", data.path().to_str().unwrap(), "list"]).out;
    assert!(listed.contains(&format!("broker 0: {PASSWORD}=[hidden]\n")), "{listed}");
    assert!(listed.contains(&location) && !listed.contains("secret\n"), "{listed}");

    let mut server = place.serve(data.path(), &[]);
    let altered = served(&place);
    server.kill();
    // Runs the command without `--config`. It then refuses a change that leaves TLS configs of the
    // broker: it cannot check them together with the configs of the server's file.
    let without =
        |words: &[&str]| muster(["config", data.path().to_str().unwrap()].iter().chain(words));
    let refused = without(&["unset", "--broker", "0", PASSWORD]);
    assert!(refused.status == 2 && refused.error.contains("--config"), "{}", refused.error);
    let refused = without(&["set", "--broker", "0", &location]);
    assert!(refused.status == 2 && refused.error.contains("--config"), "{}", refused.error);
    assert_eq!(without(&["unset", "--broker", "0", PASSWORD, LOCATION]).status, 0);
    let _server = place.serve(data.path(), &[]);
    assert!(served(&place) != altered);
}
