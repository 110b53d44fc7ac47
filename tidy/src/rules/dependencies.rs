//! Rules about dependencies, from the lists in `deny.toml`. In `.ci/deny`, cargo-deny checks the
//! same for all platforms, but it has to download the dependencies.

use crate::{Breach, Canary, Deny, Exception, Package, Rule, Skipped, Workspace};

pub(super) struct Licences;

impl Rule for Licences {
    fn name(&self) -> &'static str {
        "licences"
    }

    fn asks(&self) -> &'static str {
        "deny.toml allows the licence of each crate"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let refused = workspace.packages.iter().filter(|it| !is_allowed(&workspace.deny, it));
        refused.map(|it| Breach::one(&it.name, format!("{}: {}", it.name, it.license))).collect()
    }

    fn canary(&self) -> Canary {
        let exception = Exception { name: "c".to_owned(), allow: vec!["MPL-2.0".to_owned()] };
        let deny = Deny {
            licenses: vec!["MIT".to_owned(), "Zlib".to_owned()],
            exceptions: vec![exception],
            ..Deny::default()
        };
        let of = |licenses: &[(&str, &str)]| {
            let package = |(name, license): &(&str, &str)| Package {
                license: (*license).to_owned(),
                ..package(name, "1.0.0")
            };
            let packages = licenses.iter().map(package).collect();
            Workspace::depending(packages, deny.clone())
        };
        Canary::default()
            .breaks_as(
                of(&[("a", "GPL-3.0 AND MIT"), ("b", ""), ("d", "MPL-2.0"), ("c", "GPL-3.0")]),
                &["a: GPL-3.0 AND MIT", "b: ", "d: MPL-2.0", "c: GPL-3.0"],
            )
            .keeps_as(of(&[("a", "(MIT OR GPL-3.0) AND Zlib"), ("b", "GPL-2.0/MIT")]))
            .keeps_as(of(&[("c", "MPL-2.0+")]))
    }
}

/// Whether `deny.toml` allows the crate's licence, an SPDX expression. Old manifests write "/" for
/// OR.
fn is_allowed(deny: &Deny, package: &Package) -> bool {
    let exceptions = deny.exceptions.iter().filter(|it| it.name == package.name);
    let further: Vec<&String> = exceptions.flat_map(|it| &it.allow).collect();
    let is_listed = |license: &str| {
        let license = license.trim().trim_end_matches('+');
        deny.licenses.iter().chain(further.iter().copied()).any(|it| it == license)
    };
    let any = |part: &str| {
        let part = part.trim_matches(['(', ')']).replace('/', " OR ");
        part.split(" OR ").any(is_listed)
    };
    package.license.split(" AND ").all(any)
}

pub(super) struct Registry;

impl Rule for Registry {
    fn name(&self) -> &'static str {
        "registry"
    }

    fn asks(&self) -> &'static str {
        "each crate that is not of the workspace comes from the registry"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let sources = workspace.packages.iter().filter_map(|it| Some((it, it.source.as_ref()?)));
        let elsewhere = sources.filter(|(_, source)| !source.starts_with("registry+"));
        elsewhere.map(|(it, from)| Breach::one(&it.name, format!("{}: {from}", it.name))).collect()
    }

    fn canary(&self) -> Canary {
        let of = |source: Option<&str>| {
            let package = Package { source: source.map(str::to_owned), ..package("a", "1.0.0") };
            Workspace::depending(vec![package], Deny::default())
        };
        Canary::default()
            .breaks_as(of(Some("git+https://a.b/c")), &["a: git+https://a.b/c"])
            .keeps_as(of(Some("registry+https://a.b/c")))
            .keeps_as(of(None))
    }
}

pub(super) struct Versions;

impl Rule for Versions {
    fn name(&self) -> &'static str {
        "versions"
    }

    fn asks(&self) -> &'static str {
        "a crate is there in one version, but for those that deny.toml skips"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let is_skipped = |it: &Package| workspace.deny.skipped.iter().any(|skip| skip.matches(it));
        let kept: Vec<&Package> = workspace.packages.iter().filter(|it| !is_skipped(it)).collect();
        let is_twice = |it: &&&Package| {
            kept.iter().any(|other| other.name == it.name && other.version != it.version)
        };
        let twice = kept.iter().filter(is_twice);
        twice.map(|it| Breach::one(&it.name, format!("{} {}", it.name, it.version))).collect()
    }

    fn canary(&self) -> Canary {
        let packages = [package("a", "0.9.1"), package("a", "0.10.0"), package("b", "1.0.0")];
        Canary::default()
            .breaks_as(skipping(&packages, &[]), &["a 0.9.1", "a 0.10.0"])
            .breaks_as(skipping(&packages, &[("a", "0.1")]), &["a 0.9.1", "a 0.10.0"])
            .keeps_as(skipping(&packages, &[("a", "0.9")]))
    }
}

/// Entries of `skip` that are no longer needed. If the skipped version of a crate returned, such an
/// entry would permit it.
pub(super) struct UnusedSkips;

impl Rule for UnusedSkips {
    fn name(&self) -> &'static str {
        "unused_skips"
    }

    fn asks(&self) -> &'static str {
        "what deny.toml skips is there, beside another version"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let is_used = |skip: &&Skipped| {
            let of_name = || workspace.packages.iter().filter(|it| it.name == skip.name);
            of_name().any(|it| skip.matches(it)) && of_name().any(|it| !skip.matches(it))
        };
        let unused = workspace.deny.skipped.iter().filter(|it| !is_used(it));
        unused.map(|it| Breach::one(&it.name, format!("{}@{}", it.name, it.version))).collect()
    }

    fn canary(&self) -> Canary {
        let packages = [package("a", "0.9.1"), package("a", "0.10.0"), package("b", "1.0.0")];
        let skips = [("a", "0.8"), ("b", "1"), ("c", "1")];
        Canary::default()
            .breaks_as(skipping(&packages, &skips), &["a@0.8", "b@1", "c@1"])
            .keeps_as(skipping(&packages, &[("a", "0.9")]))
    }
}

impl Skipped {
    fn matches(&self, package: &Package) -> bool {
        let rest = package.version.strip_prefix(&self.version);
        package.name == self.name && rest.is_some_and(|it| it.is_empty() || it.starts_with('.'))
    }
}

fn package(name: &str, version: &str) -> Package {
    Package { name: name.to_owned(), version: version.to_owned(), ..Package::default() }
}

fn skipping(packages: &[Package], skips: &[(&str, &str)]) -> Workspace {
    let skipped = |(name, version): &(&str, &str)| Skipped {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
    };
    let skipped = skips.iter().map(skipped).collect();
    let deny = Deny { skipped, ..Deny::default() };
    Workspace::depending(packages.to_vec(), deny)
}
