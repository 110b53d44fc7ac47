//! A client with all permissions, which creates and deletes the ACLs of the users.

use super::rules::{
    ALLOW, Book, DENY, EVERYONE, GROUP, LITERAL, OPERATIONS, PREFIXED, Rule, TOPIC,
};
use super::{NextRequest, Surroundings, User};
use crate::random::Random;
use muster_codec::messages::{
    AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest,
};
use muster_codec::{ErrorCode, Request, Response};
use muster_server::cluster::ClusterImage;
use std::collections::BTreeSet;

const VERSION: i16 = 3;
const ANY: i8 = 1;

#[derive(Debug)]
pub(crate) struct Granter {
    /// The names of topics, some of which do not exist.
    topics: Vec<String>,
    book: Book,
    doing: Doing,
    created: u64,
    deleted: u64,
}

#[derive(Debug, Clone)]
enum Doing {
    Nothing,
    Create(Vec<Rule>),
    Delete(Which),
}

/// The ACLs that a request deletes.
#[derive(Debug, Clone)]
enum Which {
    One(Rule),
    OfPrincipal(String),
}

impl Which {
    fn has(&self, rule: &Rule) -> bool {
        match self {
            Self::One(one) => one == rule,
            Self::OfPrincipal(principal) => *principal == rule.principal,
        }
    }
}

impl Granter {
    pub(crate) fn new(topics: Vec<String>) -> Self {
        let (book, doing) = (Book::default(), Doing::Nothing);
        Self { topics, book, doing, created: 0, deleted: 0 }
    }

    pub(crate) fn book(&self) -> &Book {
        &self.book
    }

    /// The number of answered requests that created ACLs, and of those that deleted ACLs.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [self.created, self.deleted]
    }

    /// Checks the ACLs of the cluster: it must have all ACLs that certainly exist, and none that
    /// cannot exist.
    ///
    /// # Errors
    /// The ACLs contradict earlier answers.
    pub(crate) fn check(&self, image: &ClusterImage) -> Result<(), String> {
        self.book.check(&rules_of(image))
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let random = &mut *around.random;
        let known: Vec<&Rule> = self.book.certain.iter().chain(&self.book.possible).collect();
        let shard = random.below(u64::from(around.placement.shards)) as u32;
        let creates = known.is_empty() || random.chance(0.5);
        self.doing = if creates {
            let count = random.between(1, 3);
            Doing::Create((0..count).map(|_| self.rule(random)).collect())
        } else if random.chance(0.2) {
            Doing::Delete(Which::OfPrincipal(principal(random)))
        } else {
            let one = known[random.below(known.len() as u64) as usize].clone();
            Doing::Delete(Which::One(one))
        };
        self.begin();
        NextRequest { shard, version: VERSION, request: self.request() }
    }

    fn rule(&self, random: &mut Random) -> Rule {
        let resource = random.pick(&[TOPIC, TOPIC, GROUP]);
        let names: Vec<String> =
            if resource == TOPIC { self.topics.clone() } else { User::groups().collect() };
        let name = &names[random.below(names.len() as u64) as usize];
        let (pattern, name) = match random.below(4) {
            0 => (LITERAL, "*".to_owned()),
            1 => (PREFIXED, name[..name.len().min(3)].to_owned()),
            _ => (LITERAL, name.clone()),
        };
        Rule {
            resource,
            pattern,
            name,
            principal: principal(random),
            operation: random.pick(&OPERATIONS),
            permission: random.pick(&[ALLOW, ALLOW, ALLOW, DENY]),
        }
    }

    /// A request with a change is about to be sent. From now on, the change may have been made.
    fn begin(&mut self) {
        let Book { certain, possible } = &mut self.book;
        match &self.doing {
            Doing::Nothing => {}
            Doing::Create(rules) => {
                possible.extend(rules.iter().filter(|rule| !certain.contains(rule)).cloned());
            }
            Doing::Delete(which) => possible.extend(certain.extract_if(.., |it| which.has(it))),
        }
    }

    fn request(&self) -> Request<'static> {
        match &self.doing {
            Doing::Nothing => CreateAclsRequest::default().into(),
            Doing::Create(rules) => {
                CreateAclsRequest { creations: rules.iter().map(creation).collect() }.into()
            }
            Doing::Delete(which) => DeleteAclsRequest { filters: vec![filter(which)] }.into(),
        }
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let doing = std::mem::replace(&mut self.doing, Doing::Nothing);
        match (doing, response) {
            (_, None) => Ok(()),
            (Doing::Create(rules), Some(Response::CreateAcls(body))) => {
                let codes = body.results.iter().map(|it| it.error_code);
                if is_made(codes, rules.len())? {
                    self.created += 1;
                    rules.iter().for_each(|rule| _ = self.book.possible.remove(rule));
                    self.book.certain.extend(rules);
                }
                Ok(())
            }
            (Doing::Delete(which), Some(Response::DeleteAcls(body))) => {
                let codes = body.filter_results.iter().map(|it| it.error_code);
                if is_made(codes, 1)? {
                    let matching = body.filter_results.iter().flat_map(|it| &it.matching_acls);
                    self.deleted(&which, matching.map(rule_of).collect())?;
                }
                Ok(())
            }
            (doing, Some(response)) => Err(format!("{doing:?} is answered with {response:?}")),
        }
    }

    /// Notes deleted ACLs: each of them must have been possible before.
    fn deleted(&mut self, which: &Which, deleted: BTreeSet<Rule>) -> Result<(), String> {
        let possible = &mut self.book.possible;
        if let Some(rule) = deleted.iter().find(|it| !possible.contains(it) || !which.has(it)) {
            return Err(format!("{rule:?} was deleted, which is not there"));
        }
        self.deleted += u64::from(!deleted.is_empty());
        possible.retain(|it| !which.has(it));
        Ok(())
    }
}

/// The ACLs of an image.
pub(crate) fn rules_of(image: &ClusterImage) -> BTreeSet<Rule> {
    image.acls().iter().map(|(pattern, entry)| Rule::of(pattern, entry)).collect()
}

/// Whether a change was certainly made. Returns false if this is unknown, because the controller
/// was loaded again meanwhile.
fn is_made(codes: impl Iterator<Item = i16>, count: usize) -> Result<bool, String> {
    let codes: Vec<_> = codes.collect();
    match () {
        () if codes.len() == count && codes.iter().all(|code| *code == 0) => Ok(true),
        () if codes.iter().all(|code| *code == ErrorCode::UnknownServerError.code()) => Ok(false),
        () => Err(format!("a change of ACLs is refused with {codes:?}")),
    }
}

fn principal(random: &mut Random) -> String {
    let users = User::PRINCIPALS;
    match random.below(users.len() as u64 + 1) as usize {
        at if at < users.len() => format!("User:{}", users[at]),
        _ => EVERYONE.to_owned(),
    }
}

fn creation(rule: &Rule) -> AclCreation<'static> {
    AclCreation {
        resource_type: rule.resource,
        resource_name: rule.name.clone().into(),
        resource_pattern_type: rule.pattern,
        principal: rule.principal.clone().into(),
        host: "*".into(),
        operation: rule.operation,
        permission_type: rule.permission,
    }
}

fn filter(which: &Which) -> DeleteAclsFilter<'static> {
    match which {
        Which::One(rule) => DeleteAclsFilter {
            resource_type_filter: rule.resource,
            resource_name_filter: Some(rule.name.clone().into()),
            pattern_type_filter: rule.pattern,
            principal_filter: Some(rule.principal.clone().into()),
            host_filter: Some("*".into()),
            operation: rule.operation,
            permission_type: rule.permission,
        },
        Which::OfPrincipal(principal) => DeleteAclsFilter {
            resource_type_filter: ANY,
            resource_name_filter: None,
            pattern_type_filter: ANY,
            principal_filter: Some(principal.clone().into()),
            host_filter: None,
            operation: ANY,
            permission_type: ANY,
        },
    }
}

fn rule_of(acl: &DeleteAclsMatchingAcl<'_>) -> Rule {
    Rule {
        resource: acl.resource_type,
        pattern: acl.pattern_type,
        name: acl.resource_name.to_string(),
        principal: acl.principal.to_string(),
        operation: acl.operation,
        permission: acl.permission_type,
    }
}
