//! Recognizes items that exist only for tests.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Whether the item exists only in tests: one of its `cfg` attributes requires `test`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|it| it.path().is_ident("cfg")).any(|attribute| {
        let predicate: Result<Meta, _> = attribute.parse_args();
        predicate.is_ok_and(|it| requires_test(&it))
    })
}

fn requires_test(predicate: &Meta) -> bool {
    if predicate.path().is_ident("test") {
        return true;
    }
    let Meta::List(list) = predicate else { return false };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let Ok(parts) = parts else { return false };
    if list.path.is_ident("all") {
        parts.iter().any(requires_test)
    } else {
        list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(requires_test)
    }
}

/// The attributes of an item.
pub(super) fn attributes(item: &syn::Item) -> &[Attribute] {
    use syn::Item;
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::ExternCrate(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::ForeignMod(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::TraitAlias(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        // Items that syn does not parse, and kinds of items that a later syn may have.
        _ => &[],
    }
}

/// The attributes of an item of an `impl`.
pub(super) fn attributes_within(item: &syn::ImplItem) -> &[Attribute] {
    use syn::ImplItem;
    match item {
        ImplItem::Const(it) => &it.attrs,
        ImplItem::Fn(it) => &it.attrs,
        ImplItem::Type(it) => &it.attrs,
        ImplItem::Macro(it) => &it.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_hold_without_tests_is_for_tests() {
        let cases = [
            ("#[cfg(test)]", true),
            ("#[cfg(all(test, target_os = \"linux\"))]", true),
            ("#[cfg(any(test, all(test, unix)))]", true),
            ("#[doc = \"a\"] #[cfg(test)]", true),
            ("#[cfg(any(test, feature = \"testing\"))]", false),
            ("#[cfg(not(test))]", false),
            ("#[cfg(feature = \"test\")]", false),
            ("#[cfg_attr(test, derive(Debug))]", false),
            ("#[test]", false),
        ];
        for (attribute, expected) in cases {
            let item: syn::Item = syn::parse_str(&format!("{attribute} mod a;")).unwrap();
            assert_eq!(is_for_tests(attributes(&item)), expected, "{attribute}");
        }
    }
}
