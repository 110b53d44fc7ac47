//! The configs of the authorizer, including those of Kafka's `StandardAuthorizer`.

use super::Config;
use crate::security::acls::AclRules;

/// Kafka's authorizer, whose rules muster implements.
const STANDARD: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

impl Config {
    /// Whether requests are checked against ACLs.
    pub(crate) fn has_authorizer(&self) -> bool {
        !self.authorizer_class_name.is_empty()
    }

    /// The rules by which the authorizer decides, besides the ACLs themselves.
    pub(crate) fn acl_rules(&self) -> AclRules {
        AclRules {
            super_users: super_users(self).map(str::to_owned).collect(),
            allows_without_acls: self.allow_everyone_if_no_acl_found,
        }
    }

    /// The first invalid key of the authorizer, with the reason.
    pub(super) fn check_authorizer(&self) -> Option<(&'static str, String)> {
        let class = &self.authorizer_class_name;
        if self.has_authorizer() && class != STANDARD {
            let rule = format!("authorizer.class.name={class}: muster serves {STANDARD}");
            return Some(("authorizer.class.name", rule));
        }
        let is_whole = |user: &str| user.split_once(':').is_some_and(|(kind, _)| !kind.is_empty());
        let wrong = super_users(self).find(|user| !is_whole(user))?;
        Some(("super.users", format!("super.users: {wrong} is not a principal such as User:admin")))
    }
}

/// The super users. They are separated by semicolons, as names in certificates contain commas.
fn super_users(config: &Config) -> impl Iterator<Item = &str> {
    config.super_users.split(';').map(str::trim).filter(|user| !user.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(words: &[&str]) -> Result<Config, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        Config::load("", &words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_authorizer_of_kafka_is_served_and_no_other() {
        let class = format!("authorizer.class.name={STANDARD}");
        let config = load(&[&class, "super.users=User:a; User:CN=b,O=c;"]).unwrap();
        assert!(config.has_authorizer());
        let rules = config.acl_rules();
        assert_eq!(rules.super_users, ["User:CN=b,O=c", "User:a"].map(str::to_owned).into());
        assert!(!rules.allows_without_acls && !load(&[]).unwrap().has_authorizer());
        let error = load(&["authorizer.class.name=org.example.Mine"]).unwrap_err();
        assert!(error.contains("muster serves org.apache.kafka"), "{error}");
        let error = load(&["super.users=admin"]).unwrap_err();
        assert!(error.contains("admin is not a principal"), "{error}");
    }
}
