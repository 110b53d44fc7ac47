//! What the workspace depends on: licences, sources, and crates that are there in two versions.
//! Advisories need a database from the network and are not looked at here.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Licences that allow use beside Apache-2.0 in a program that is passed on.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MPL-2.0+",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that dependencies want in several versions, with the number of these. To be lowered when
/// a dependency catches up; a new one needs a reason. The digests and what is made of them are those
/// of muster-load's SASL (rsasl), and the newer ones of the key stores of TLS (pkcs8, p12-keystore);
/// nom is that of hdrhistogram, and of x509-parser.
const SEVERAL: [(&str, usize); 13] = [
    ("base64", 2),
    ("block-buffer", 2),
    ("cpufeatures", 2),
    ("crypto-common", 2),
    ("digest", 2),
    ("getrandom", 2),
    ("hmac", 2),
    ("nom", 2),
    ("pbkdf2", 2),
    ("rand", 2),
    ("rand_core", 3),
    ("sha2", 2),
    ("syn", 2),
];

struct Package {
    name: String,
    license: String,
    /// None of the workspace's own.
    source: Option<String>,
}

/// The packages that are built on this machine.
fn packages() -> Vec<Package> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(arguments).args(["--filter-platform", &host()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids = metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| &node["id"]);
    let used: BTreeSet<&str> = ids.map(|id| id.as_str().unwrap()).collect();
    let all = metadata["packages"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let package = |it: &Value| Package {
        name: text(&it["name"]),
        license: text(&it["license"]),
        source: it["source"].as_str().map(str::to_owned),
    };
    all.filter(|it| used.contains(it["id"].as_str().unwrap())).map(package).collect()
}

/// The platform that is built for; crates of others need not have been downloaded.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Whether an SPDX expression can be met with [`ALLOWED`]. Old manifests write "/" for OR.
fn is_allowed(expression: &str) -> bool {
    let any = |part: &str| {
        let part = part.trim_matches(['(', ')']).replace('/', " OR ");
        part.split(" OR ").any(|license| ALLOWED.contains(&license.trim()))
    };
    expression.split(" AND ").all(any)
}

#[test]
fn licences_are_compatible_with_ours() {
    let refused = packages().into_iter().filter(|it| !is_allowed(&it.license));
    let refused: Vec<_> = refused.map(|it| format!("{}: {:?}", it.name, it.license)).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(is_allowed("(MIT OR GPL-3.0) AND Zlib") && is_allowed("GPL-2.0/MIT"));
    assert!(!is_allowed("GPL-3.0 AND MIT") && !is_allowed(""));
}

#[test]
fn all_crates_come_from_the_registry() {
    let is_elsewhere =
        |it: &Package| it.source.as_ref().is_some_and(|it| !it.starts_with("registry+"));
    let elsewhere = packages().into_iter().filter(is_elsewhere);
    let elsewhere: Vec<_> = elsewhere.map(|it| it.name).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[test]
fn no_further_crate_is_there_in_several_versions() {
    let mut versions = BTreeMap::<String, usize>::new();
    packages().into_iter().for_each(|it| *versions.entry(it.name).or_default() += 1);
    let several: Vec<_> = versions.into_iter().filter(|(_, count)| *count > 1).collect();
    let known = SEVERAL.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(several, known);
}
