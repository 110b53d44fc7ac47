//! DescribeClientQuotas (key 48), versions 0-1, flexible from 1 (KIP-546).

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DescribeClientQuotasRequest<'a> {
        components: Vec<QuotaFilterComponent<'a>>, 0..;
        strict: bool, 0..;
    }

    pub struct QuotaFilterComponent<'a> {
        entity_type: Str<'a>, 0..;
        match_type: i8, 0..;
        match_name: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }

    pub struct DescribeClientQuotasResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        entries: Option<Vec<QuotaEntry<'a>>> = Some(Vec::new()), 0..;
    }

    pub struct QuotaEntry<'a> {
        entity: Vec<QuotaEntity<'a>>, 0..;
        values: Vec<QuotaValue<'a>>, 0..;
    }

    pub struct QuotaEntity<'a> {
        entity_type: Str<'a>, 0..;
        /// Null for the default entity.
        entity_name: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }

    pub struct QuotaValue<'a> {
        key: Str<'a>, 0..;
        value: f64, 0..;
    }
}
