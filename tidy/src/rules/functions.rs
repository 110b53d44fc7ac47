//! The rule about the length of functions.

use crate::{Breach, Canary, Rule, Workspace};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The most lines of a function, from `fn` to its closing brace.
const LINES: usize = 70;

/// Functions above the limit, including tests: if a test does not fit on a screen, it is hard to
/// see which step failed. The rule does not see functions in macros such as `proptest!`.
pub(super) struct LongFunctions;

impl Rule for LongFunctions {
    fn name(&self) -> &'static str {
        "long_functions"
    }

    fn asks(&self) -> &'static str {
        "a function has at most 70 lines, from `fn` to its last brace"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let of_file = |path: &str, file: &syn::File| {
            let mut functions = Functions { names: vec![path.to_owned()], long: Vec::new() };
            functions.visit_file(file);
            functions.long
        };
        let files = workspace.code.iter().filter_map(|it| Some((it.path.as_str(), it.file()?)));
        files.flat_map(|(path, file)| of_file(path, file)).collect()
    }

    fn canary(&self) -> Canary {
        let function = |lines: usize| format!("fn f() {{\n{}}}", "    g();\n".repeat(lines - 2));
        let (long, short) = (function(LINES + 1), function(LINES));
        let free = format!("//! a\n\n/// f\n#[inline]\npub {long}");
        let method = format!("mod m {{ impl<T> super::A<T> {{ {long} }} }}");
        let of_trait = format!("impl Run for A {{ {long} }} trait Run {{ {long} }}");
        Canary::default()
            .breaks(&[("a.rs", &free)], &["a.rs::f: 71"])
            .breaks(&[("a.rs", &method)], &["a.rs::m::A::f: 71"])
            .breaks(&[("a.rs", &of_trait)], &["a.rs::A as Run::f: 71", "a.rs::Run::f: 71"])
            .keeps(&[("a.rs", &format!("/// f\n///\n{short}\n\nfn g() {{}}"))])
    }
}

struct Functions {
    /// The file's path and the enclosing modules, types and functions.
    names: Vec<String>,
    long: Vec<Breach>,
}

impl Functions {
    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.names.push(name);
        visit(self);
        self.names.pop();
    }

    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span().start().line;
        let lines = body.brace_token.span.close().end().line - first + 1;
        if lines > LINES {
            self.long.push(Breach::sized(self.names.join("::"), lines));
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(item.ident.to_string(), |it| visit::visit_item_mod(it, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of_type = last_name(&item.self_ty);
        let name = match &item.trait_ {
            Some((path, _)) => format!("{of_type} as {}", last_segment(path)),
            None => of_type,
        };
        self.within(name, |it| visit::visit_item_impl(it, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(item.ident.to_string(), |it| visit::visit_item_trait(it, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(item.sig.ident.to_string(), |it| {
            it.measure(&item.sig, &item.block);
            visit::visit_item_fn(it, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(item.sig.ident.to_string(), |it| {
            it.measure(&item.sig, &item.block);
            visit::visit_impl_item_fn(it, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.within(item.sig.ident.to_string(), |it| {
            if let Some(body) = &item.default {
                it.measure(&item.sig, body);
            }
            visit::visit_trait_item_fn(it, item);
        });
    }
}

/// The name of a type without path and generic arguments.
fn last_name(of_type: &syn::Type) -> String {
    match of_type {
        syn::Type::Path(path) => last_segment(&path.path),
        syn::Type::Reference(reference) => format!("&{}", last_name(&reference.elem)),
        _ => "_".to_owned(),
    }
}

fn last_segment(path: &syn::Path) -> String {
    path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default()
}
