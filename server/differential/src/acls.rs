//! Histories of a user. Between its requests, its ACLs are changed in the same way on both servers.

use crate::wire::{Answer, Ask, Flaw, Side};
use crate::world::World;
use muster_codec::messages::{
    AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest,
};
use muster_codec::{Request, Str};
use serde_json::Value;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of users that both servers know: `u0` and so on. A user's password equals its name.
pub const USERS: u64 = 64;

/// Before each request, the ACLs change with a probability of one in this number.
const CHANGE_EVERY: u32 = 5;

/// The time within which a server must show a change.
const PATIENCE: Duration = Duration::from_secs(15);

const ANY: i8 = 1;
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const CLUSTER: i8 = 4;
const TRANSACTIONAL_ID: i8 = 5;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const ALL: i8 = 2;
const DENY: i8 = 2;
const ALLOW: i8 = 3;

/// The resources of an ACL, by their names.
struct Pattern {
    /// `LITERAL` or `PREFIXED`.
    kind: i8,
    name: String,
}

/// The user of a history, and its ACLs.
pub struct Acls {
    user: String,
    current: Vec<AclCreation<'static>>,
}

impl Acls {
    /// Sets ACLs that allow most requests for some types of resources.
    ///
    /// # Errors
    /// A server cannot be reached, refuses the change, or does not show it in time.
    pub fn begin(seed: u64, world: &mut World, sides: [&Side; 2]) -> io::Result<Self> {
        let mut acls = Self { user: format!("u{}", seed % USERS), current: Vec::new() };
        for (resource_type, name) in [
            (TOPIC, world.prefix.clone()),
            (GROUP, world.prefix.clone()),
            (TRANSACTIONAL_ID, world.prefix.clone()),
            (CLUSTER, CLUSTER_NAME.to_owned()),
        ] {
            if world.chance(60) {
                let is_cluster = resource_type == CLUSTER;
                let kind = if is_cluster { LITERAL } else { PREFIXED };
                let all = acls.acl(resource_type, Pattern { kind, name }, ALL, ALLOW);
                acls.add(all, sides)?;
            }
        }
        Ok(acls)
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    /// Sometimes changes the ACLs.
    ///
    /// # Errors
    /// The errors of [`Self::begin`].
    pub fn change(&mut self, world: &mut World, sides: [&Side; 2]) -> io::Result<()> {
        if world.random.u32(..CHANGE_EVERY) > 0 {
            return Ok(());
        }
        if !self.current.is_empty() && world.chance(45) {
            let at = world.random.usize(..self.current.len());
            let gone = self.current.swap_remove(at);
            return self.remove(&gone, sides);
        }
        let added = self.random(world);
        if self.current.contains(&added) {
            return Ok(());
        }
        self.add(added, sides)
    }

    /// Removes all ACLs of the user.
    ///
    /// # Errors
    /// The errors of [`Self::begin`].
    pub fn end(mut self, sides: [&Side; 2]) -> io::Result<()> {
        while let Some(gone) = self.current.pop() {
            self.remove(&gone, sides)?;
        }
        Ok(())
    }

    fn random(&self, world: &mut World) -> AclCreation<'static> {
        let resource_type =
            world.one(&[TOPIC, TOPIC, TOPIC, GROUP, GROUP, CLUSTER, TRANSACTIONAL_ID]);
        let name = match resource_type {
            TOPIC => world.topic_or_internal().name,
            GROUP => world.group_name(),
            CLUSTER => CLUSTER_NAME.to_owned(),
            _ => world.transactional_ids[0].name.clone(),
        };
        let literal = |name| Pattern { kind: LITERAL, name };
        let pattern = match world.random.u32(..10) {
            _ if resource_type == CLUSTER => literal(name),
            0 => literal("*".to_owned()),
            1..4 => Pattern { kind: PREFIXED, name: world.prefix.clone() },
            _ if name.is_empty() => literal("*".to_owned()),
            _ => literal(name),
        };
        let operations: &[i8] = match resource_type {
            TOPIC => &[ALL, 3, 4, 5, 6, 7, 8, 10, 11],
            GROUP => &[ALL, 3, 6, 8, 10, 11],
            CLUSTER => &[ALL, 5, 7, 8, 9, 10, 11, 12],
            _ => &[ALL, 4, 8, 15],
        };
        let operation = world.one(operations);
        let permission = if world.chance(25) { DENY } else { ALLOW };
        let mut acl = self.acl(resource_type, pattern, operation, permission);
        if world.chance(15) {
            acl.host = world.one(&["127.0.0.1", "10.0.0.1"]).into();
        }
        acl
    }

    fn acl(
        &self,
        resource_type: i8,
        pattern: Pattern,
        operation: i8,
        permission_type: i8,
    ) -> AclCreation<'static> {
        AclCreation {
            resource_type,
            resource_name: pattern.name.into(),
            resource_pattern_type: pattern.kind,
            principal: self.principal(),
            host: "*".into(),
            operation,
            permission_type,
        }
    }

    fn principal(&self) -> Str<'static> {
        format!("User:{}", self.user).into()
    }

    fn add(&mut self, acl: AclCreation<'static>, sides: [&Side; 2]) -> io::Result<()> {
        self.current.push(acl.clone());
        let request = CreateAclsRequest { creations: vec![acl] };
        self.alter(request.into(), sides)
    }

    fn remove(&self, acl: &AclCreation<'static>, sides: [&Side; 2]) -> io::Result<()> {
        let filter = DeleteAclsFilter {
            resource_type_filter: acl.resource_type,
            resource_name_filter: Some(acl.resource_name.clone()),
            pattern_type_filter: acl.resource_pattern_type,
            principal_filter: Some(acl.principal.clone()),
            host_filter: Some(acl.host.clone()),
            operation: acl.operation,
            permission_type: acl.permission_type,
        };
        self.alter(DeleteAclsRequest { filters: vec![filter] }.into(), sides)
    }

    /// Requests a change from both servers, and waits until their brokers show it.
    fn alter(&self, request: Request<'static>, sides: [&Side; 2]) -> io::Result<()> {
        let ask = Ask { version: 3, request, flaw: Flaw::None };
        for side in sides {
            let answer = side.call(&ask)?;
            if !is_done(&answer) {
                return Err(io::Error::other(format!("{}: {ask:?}: {answer:?}", side.address())));
            }
            self.await_all(side)?;
        }
        Ok(())
    }

    fn await_all(&self, side: &Side) -> io::Result<()> {
        let request = DescribeAclsRequest {
            resource_type_filter: ANY,
            resource_name_filter: None,
            pattern_type_filter: ANY,
            principal_filter: Some(self.principal()),
            host_filter: None,
            operation: ANY,
            permission_type: ANY,
        };
        let ask = Ask { version: 3, request: request.into(), flaw: Flaw::None };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Answer::Body(body) = side.call(&ask)?
                && described(&body["DescribeAcls"]) == self.current.len()
            {
                return Ok(());
            }
            sleep(Duration::from_millis(3));
        }
        Err(io::Error::other(format!("{} does not show ACLs", side.address())))
    }
}

/// The name of the only resource of type CLUSTER.
const CLUSTER_NAME: &str = "kafka-cluster";

fn is_done(answer: &Answer) -> bool {
    let Answer::Body(body) = answer else { return false };
    let created = &body["CreateAcls"]["results"][0]["errorCode"];
    let deleted = &body["DeleteAcls"]["filterResults"][0];
    *created == 0 || (deleted["errorCode"] == 0 && deleted["matchingAcls"][0].is_object())
}

fn described(body: &Value) -> usize {
    let resources = body["resources"].as_array().into_iter().flatten();
    resources.filter_map(|resource| Some(resource["acls"].as_array()?.len())).sum()
}
