//! DescribeClientQuotas: the quotas of the entities that a filter matches, by the rules of Kafka's
//! `ClientQuotasImage`.

use super::View;
use crate::quotas::{Bounds, CLIENT_ID, Entity, IP, QuotaKey, USER};
use muster_codec::messages::{
    DescribeClientQuotasRequest, DescribeClientQuotasResponse, QuotaEntity, QuotaEntry,
    QuotaFilterComponent, QuotaValue,
};
use muster_codec::{ErrorCode, Str};
use std::collections::BTreeMap;

pub fn describe_client_quotas<'r>(
    view: &View<'r>,
    request: &DescribeClientQuotasRequest<'_>,
) -> DescribeClientQuotasResponse<'r> {
    let filter = match filter(&request.components) {
        Ok(filter) => filter,
        Err((error, words)) => {
            return DescribeClientQuotasResponse {
                error_code: error.code(),
                error_message: Some(words.into()),
                entries: None,
                ..Default::default()
            };
        }
    };
    let is_asked = |entity: &Entity| {
        let has_all = filter.iter().all(|(kind, asked)| {
            entity.part(kind).is_some_and(|name| match asked {
                Asked::Name(asked) => name.as_str() == *asked,
                Asked::Any => true,
            })
        });
        has_all && (!request.strict || entity.parts().count() == filter.len())
    };
    let asked = view.image.client_quotas().iter().filter(|(entity, _)| is_asked(entity));
    let entries = asked.map(|(entity, bounds)| entry(entity, bounds)).collect();
    DescribeClientQuotasResponse {
        error_message: None,
        entries: Some(entries),
        ..Default::default()
    }
}

/// The names that a filter accepts for one kind of entity.
enum Asked<'f> {
    /// This name; None is the default entity.
    Name(Option<&'f str>),
    Any,
}

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

/// The filter's parts by kind of entity.
///
/// # Errors
/// Kafka's error code and message for an invalid filter.
fn filter<'f>(
    components: &'f [QuotaFilterComponent<'_>],
) -> Result<BTreeMap<&'f str, Asked<'f>>, (ErrorCode, String)> {
    let mut filter = BTreeMap::new();
    for component in components {
        let kind = &*component.entity_type;
        if kind.is_empty() {
            return Err(invalid("Invalid empty entity type."));
        }
        if filter.contains_key(kind) {
            let words = format!("Entity type {kind} cannot appear more than once in the filter.");
            return Err(invalid(words));
        }
        if ![USER, CLIENT_ID, IP].contains(&kind) {
            return Err((ErrorCode::UnsupportedVersion, format!("Unsupported entity type {kind}")));
        }
        filter.insert(kind, asked(component)?);
    }
    if filter.contains_key(IP) && filter.len() > 1 {
        let words = "Invalid entity filter component combination. IP filter component should not \
                     be used with user or clientId filter component.";
        return Err(invalid(words));
    }
    Ok(filter)
}

fn asked<'f>(component: &'f QuotaFilterComponent<'_>) -> Result<Asked<'f>, (ErrorCode, String)> {
    let also =
        |kind| invalid(format!("Request specified {kind}, but also specified a match string."));
    match (component.match_type, component.match_name.as_deref()) {
        (EXACT, Some(name)) => Ok(Asked::Name(Some(name))),
        (EXACT, None) => {
            Err(invalid("Request specified MATCH_TYPE_EXACT, but set match string to null."))
        }
        (DEFAULT, None) => Ok(Asked::Name(None)),
        (DEFAULT, Some(_)) => Err(also("MATCH_TYPE_DEFAULT")),
        (SPECIFIED, None) => Ok(Asked::Any),
        (SPECIFIED, Some(_)) => Err(also("MATCH_TYPE_SPECIFIED")),
        (unknown, _) => Err(invalid(format!("Unknown match type {unknown}"))),
    }
}

fn invalid(words: impl Into<String>) -> (ErrorCode, String) {
    (ErrorCode::InvalidRequest, words.into())
}

fn entry<'r>(entity: &'r Entity, bounds: &Bounds) -> QuotaEntry<'r> {
    let parts = entity.parts().map(|(kind, name)| QuotaEntity {
        entity_type: Str::Borrowed(kind),
        entity_name: name.as_str().map(Str::Borrowed),
    });
    let values = QuotaKey::ALL.into_iter().zip(bounds).filter_map(|(key, bound)| {
        bound.map(|it| QuotaValue { key: Str::Borrowed(key.name()), value: it.get() })
    });
    QuotaEntry { entity: parts.collect(), values: values.collect() }
}
