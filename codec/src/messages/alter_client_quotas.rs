//! AlterClientQuotas (key 49), versions 0-1, flexible from 1 (KIP-546).

use super::describe_client_quotas::QuotaEntity;
use crate::declare::message;
use crate::types::Str;

message! {
    pub struct AlterClientQuotasRequest<'a> {
        entries: Vec<QuotaAlteration<'a>>, 0..;
        validate_only: bool, 0..;
    }

    pub struct QuotaAlteration<'a> {
        entity: Vec<QuotaEntity<'a>>, 0..;
        ops: Vec<QuotaOp<'a>>, 0..;
    }

    pub struct QuotaOp<'a> {
        key: Str<'a>, 0..;
        value: f64, 0..;
        remove: bool, 0..;
    }

    pub struct AlterClientQuotasResponse<'a> {
        throttle_time_ms: i32, 0..;
        entries: Vec<QuotaAlterationResult<'a>>, 0..;
    }

    pub struct QuotaAlterationResult<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        entity: Vec<QuotaEntity<'a>>, 0..;
    }
}
