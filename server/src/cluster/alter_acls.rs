//! CreateAcls and DeleteAcls, by the rules of Kafka's `AclApis` and `AclControlManager`.

use super::View;
use super::acls::record;
use super::change::{Change, Refused};
use super::limits::{ACL_BYTES_MAX, ACLS_LOOKED_AT_MAX, ACLS_MAX};
use crate::security::CLUSTER_NAME;
use crate::security::acls::{
    Acl, AclFilter, Acls, Entry, Operation, Pattern, PatternType, Permission, ResourceType,
};
use muster_codec::messages::{
    AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse, DeleteAclsFilter,
    DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse,
};
use muster_codec::records::AclValue;
use muster_codec::{ErrorCode, Str};
use std::collections::BTreeSet;

/// Creates ACLs. Creating an existing ACL succeeds without effect.
pub fn create_acls(
    view: &View<'_>,
    request: &CreateAclsRequest<'_>,
) -> Change<CreateAclsResponse<'static>> {
    let (mut added, mut results) = (BTreeSet::new(), Vec::new());
    for creation in &request.creations {
        let decided = decide(view, creation, added.len());
        let (error_code, error_message) = match decided {
            Ok(acl) => {
                added.extend(acl);
                (ErrorCode::None.code(), None)
            }
            Err(refused) => (refused.error.code(), refused.error_message()),
        };
        results.push(AclCreationResult { error_code, error_message });
    }
    let records = added.iter().map(|acl| record(&acl.pattern, &acl.entry, Some(AclValue {})));
    let response = CreateAclsResponse { results, throttle_time_ms: 0 };
    Change { records: records.collect(), response }
}

/// The ACL to add; None if it exists. `added` counts the ACLs that the request has added so far.
fn decide(
    view: &View<'_>,
    creation: &AclCreation<'_>,
    added: usize,
) -> Result<Option<Acl>, Refused> {
    if !view.config.has_authorizer() {
        return Err(security_disabled());
    }
    let acl = acl(creation)?;
    if view.image.acls().has(&acl) {
        return Ok(None);
    }
    let Acl { pattern, entry } = &acl;
    if pattern.name.len() + entry.principal.len() + entry.host.len() > ACL_BYTES_MAX {
        let words =
            format!("Name, principal and host may have {ACL_BYTES_MAX} bytes (ACL_BYTES_MAX)");
        return Err(Refused::new(ErrorCode::InvalidRequest, words));
    }
    if view.image.acls().len() + added >= ACLS_MAX {
        let words = format!("There are {ACLS_MAX} ACLs already (ACLS_MAX).");
        return Err(Refused::new(ErrorCode::PolicyViolation, words));
    }
    Ok(Some(acl))
}

fn acl(creation: &AclCreation<'_>) -> Result<Acl, Refused> {
    let invalid = |what: &str, code: i8| {
        Refused::new(ErrorCode::InvalidRequest, format!("Invalid {what} {code}"))
    };
    let AclCreation { resource_pattern_type, operation, permission_type, .. } = *creation;
    let resource_type = ResourceType::by_code(creation.resource_type)
        .ok_or_else(|| invalid("resourceType", creation.resource_type))?;
    let name = &*creation.resource_name;
    if resource_type == ResourceType::Cluster && name != CLUSTER_NAME {
        let words = format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}");
        return Err(Refused::new(ErrorCode::InvalidRequest, words));
    }
    if name.is_empty() {
        return Err(Refused::new(ErrorCode::InvalidRequest, "Invalid empty resource name"));
    }
    let pattern_type = PatternType::by_code(resource_pattern_type)
        .ok_or_else(|| invalid("patternType", resource_pattern_type))?;
    let pattern = Pattern { resource_type, pattern_type, name: name.into() };
    let entry = Entry {
        principal: principal(&creation.principal)?.into(),
        host: creation.host.as_ref().into(),
        operation: Operation::by_code(operation).ok_or_else(|| invalid("operation", operation))?,
        permission: Permission::by_code(permission_type)
            .ok_or_else(|| invalid("permissionType", permission_type))?,
    };
    Ok(Acl { pattern, entry })
}

/// Checks that a principal is a type and a name (`SecurityUtils.parseKafkaPrincipal`).
fn principal<'t>(text: &'t Str<'_>) -> Result<&'t str, Refused> {
    let is_whole = text.split_once(':').is_some_and(|(kind, _)| !kind.is_empty());
    is_whole.then_some(&**text).ok_or_else(|| {
        let words = "expected a string in format principalType:principalName";
        Refused::new(ErrorCode::InvalidRequest, format!("{words} but got {text}"))
    })
}

/// Deletes ACLs. The answer has the matches of each filter, so an ACL that several filters match
/// occurs more than once. All filters are refused if the answer would be too long, or if too many
/// ACLs had to be compared. Kafka refuses all filters if they match more than 10,000 ACLs.
pub fn delete_acls(
    view: &View<'_>,
    request: &DeleteAclsRequest<'_>,
) -> Change<DeleteAclsResponse<'static>> {
    let (mut removed, mut results) = (BTreeSet::new(), Vec::new());
    let mut left = Left { to_look_at: ACLS_LOOKED_AT_MAX, to_answer: ACLS_MAX };
    for filter in &request.filters {
        let matching = match filter_of(view, filter) {
            Ok(filter) => left.matching(view.image.acls(), &filter),
            Err(refused) => {
                results.push(refused_filter(refused));
                continue;
            }
        };
        let Some(matching) = matching else { return too_much(request.filters.len()) };
        let matching_acls = matching.iter().map(|(pattern, it)| deleted(pattern, it)).collect();
        results.push(DeleteAclsFilterResult {
            error_message: None,
            matching_acls,
            ..Default::default()
        });
        removed.extend(matching);
    }
    let records = removed.into_iter().map(|(pattern, entry)| record(pattern, entry, None));
    let response = DeleteAclsResponse { filter_results: results, throttle_time_ms: 0 };
    Change { records: records.collect(), response }
}

/// The rest of a request's limits, for its later filters: how many more ACLs these filters may
/// compare, and how many more they may match.
struct Left {
    to_look_at: usize,
    to_answer: usize,
}

impl Left {
    /// The ACLs that a filter matches; None if a limit of the request is exceeded.
    fn matching<'a>(
        &mut self,
        acls: &'a Acls,
        filter: &AclFilter<'_>,
    ) -> Option<Vec<(&'a Pattern, &'a Entry)>> {
        self.to_look_at = self.to_look_at.checked_sub(acls.looks_at(filter))?;
        let matching = acls.matching(filter);
        self.to_answer = self.to_answer.checked_sub(matching.len())?;
        Some(matching)
    }
}

fn filter_of<'f>(
    view: &View<'_>,
    filter: &'f DeleteAclsFilter<'_>,
) -> Result<AclFilter<'f>, Refused> {
    if !view.config.has_authorizer() {
        return Err(security_disabled());
    }
    AclFilter::new(filter.into())
        .ok_or_else(|| Refused::new(ErrorCode::InvalidRequest, "Unknown filter."))
}

fn refused_filter(refused: Refused) -> DeleteAclsFilterResult<'static> {
    DeleteAclsFilterResult {
        error_code: refused.error.code(),
        error_message: refused.error_message(),
        ..Default::default()
    }
}

fn too_much(filters: usize) -> Change<DeleteAclsResponse<'static>> {
    let refused = || {
        let words = format!(
            "The filters of a request may match {ACLS_MAX} ACLs and look at {ACLS_LOOKED_AT_MAX}"
        );
        refused_filter(Refused::new(ErrorCode::InvalidRequest, words))
    };
    let filter_results = std::iter::repeat_with(refused).take(filters).collect();
    let response = DeleteAclsResponse { filter_results, throttle_time_ms: 0 };
    Change { records: Vec::new(), response }
}

fn deleted(pattern: &Pattern, entry: &Entry) -> DeleteAclsMatchingAcl<'static> {
    DeleteAclsMatchingAcl {
        error_message: None,
        resource_type: pattern.resource_type.code(),
        resource_name: pattern.name.to_string().into(),
        pattern_type: pattern.pattern_type.code(),
        principal: entry.principal.to_string().into(),
        host: entry.host.to_string().into(),
        operation: entry.operation.code(),
        permission_type: entry.permission.code(),
        ..Default::default()
    }
}

fn security_disabled() -> Refused {
    Refused::new(ErrorCode::SecurityDisabled, "No Authorizer is configured.")
}
