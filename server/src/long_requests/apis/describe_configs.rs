//! DescribeConfigs: each resource is answered by itself, unless all resources are refused.

use super::{LongApi, TOO_LARGE};
use crate::admin;
use crate::cluster::BROKER_RESOURCE;
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{ItemList, Items, Rest, Single, Whole};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{SLICE_WEIGHT, Sizes, exceed_a_slice};
use muster_codec::Field;
use muster_codec::messages::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse, DescribeConfigsResult,
};
use std::collections::HashSet;

/// The weight of describing one resource's configs.
const CONFIGS_WEIGHT: usize = 32;
const BROKER_CONFIGS_WEIGHT: usize = 256;

impl LongApi for DescribeConfigsRequest<'_> {
    fn is_long(&self, _version: i16, _sizes: &mut Sizes<'_>) -> bool {
        match admin::unknown_type(self) {
            None => exceed_a_slice(self.resources.iter().map(weight)),
            Some(_) => self.resources.len() > SLICE_WEIGHT,
        }
    }

    fn take_apart(self, _version: i16) -> Box<dyn Rest> {
        let is_refused = admin::unknown_type(&self).is_some();
        let resources = all(self.resources, owned_resource);
        if is_refused {
            return Box::new(Whole(Some(DescribeConfigsRequest { resources, ..self })));
        }
        let request = DescribeConfigsRequest { resources: Vec::new(), ..self };
        Box::new(Items::new(request, each_with_repetition(resources)))
    }
}

fn weight(resource: &DescribeConfigsResource<'_>) -> usize {
    match resource.resource_type {
        BROKER_RESOURCE => BROKER_CONFIGS_WEIGHT,
        _ => CONFIGS_WEIGHT,
    }
}

/// A resource of a request that was split into items.
#[derive(Debug)]
pub(in crate::long_requests) struct NamedResource {
    resource: DescribeConfigsResource<'static>,
    /// Whether the request named it before.
    is_repeated: bool,
}

fn each_with_repetition(resources: Vec<DescribeConfigsResource<'static>>) -> Vec<NamedResource> {
    let mut seen = HashSet::with_capacity(resources.len());
    let is_repeated =
        resources.iter().map(|it| !seen.insert((it.resource_type, &*it.resource_name)));
    let is_repeated: Vec<bool> = is_repeated.collect();
    let named = |(resource, is_repeated)| NamedResource { resource, is_repeated };
    resources.into_iter().zip(is_repeated).map(named).collect()
}

impl ItemList for DescribeConfigsRequest<'static> {
    type Item = NamedResource;

    fn weight(named: &NamedResource, _sizes: &mut Sizes<'_>) -> usize {
        weight(&named.resource)
    }

    fn held(named: &NamedResource) -> usize {
        named.resource.held()
    }

    fn answer(&self, named: Vec<NamedResource>, slice: &mut Slice<'_>) {
        let mut repeated = named.iter().map(|it| it.is_repeated).collect::<Vec<_>>().into_iter();
        let resources = named.into_iter().map(|it| it.resource).collect();
        let request = DescribeConfigsRequest { resources, ..*self };
        let is_new = |_: i8, _: &str| repeated.next().is_none_or(|repeated| !repeated);
        let view = slice.view();
        slice.add(admin::describe_configs_of(&view, &request, is_new).into());
    }
}

/// Answers a request whose resources are all refused.
impl Single for DescribeConfigsRequest<'_> {
    fn answer(self, slice: &mut Slice<'_>) {
        let view = slice.view();
        slice.add(admin::describe_configs(&view, &self).into());
    }

    fn held(&self) -> usize {
        Field::held(self)
    }
}

impl<'r> LongAnswer<'r> for DescribeConfigsResponse<'r> {
    type Element = DescribeConfigsResult<'r>;

    fn list(&mut self) -> &mut Vec<DescribeConfigsResult<'r>> {
        &mut self.results
    }

    fn too_large(result: DescribeConfigsResult<'r>) -> DescribeConfigsResult<'r> {
        let (error_message, configs) = (None, Vec::new());
        DescribeConfigsResult { error_code: TOO_LARGE, error_message, configs, ..result }
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}

fn owned_resource(resource: DescribeConfigsResource<'_>) -> DescribeConfigsResource<'static> {
    DescribeConfigsResource {
        resource_type: resource.resource_type,
        resource_name: text(resource.resource_name),
        configuration_keys: resource.configuration_keys.map(|keys| all(keys, text)),
    }
}
