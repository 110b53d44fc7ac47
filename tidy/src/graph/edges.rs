//! Finds all names in a file that refer to items of other files.

use super::Graph;
use super::cfg::{attributes, attributes_within, is_for_tests};
use super::modules::{Crate, ModuleId, Target, is_re_export, name, used};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::visit::{self, Visit};

/// Maps each file of a crate to the other files that it uses, because it names their items.
pub(crate) fn file_graph(all: &Crate<'_>) -> Graph {
    let mut graph = Graph::new();
    for (id, module) in all.modules.iter().enumerate().filter(|(_, it)| !it.is_test) {
        let mut uses = Uses { all, module: id, found: BTreeSet::new() };
        module.items.iter().for_each(|it| uses.visit_item(it));
        let files = uses.found.into_iter().map(|it| &all.modules[it]);
        let others = files.filter(|it| it.file != module.file && !it.is_test);
        let edges = graph.entry(module.file.to_owned()).or_default();
        edges.extend(others.map(|it| it.file.to_owned()));
    }
    graph
}

struct Uses<'c> {
    all: &'c Crate<'c>,
    module: ModuleId,
    /// The modules that define the named items.
    found: BTreeSet<ModuleId>,
}

impl Uses<'_> {
    /// Records the modules that define the items to which a path leads. If the path leads to a
    /// module, it names none of the module's items, and nothing is recorded.
    fn add(&mut self, path: &[String]) {
        let targets = self.all.resolve(self.module, path);
        self.found.extend(targets.into_iter().filter_map(|it| match it {
            Target::Item(module) => Some(module),
            Target::Module(_) => None,
        }));
    }

    /// Records the paths in the tokens of a macro. A single lower-case name may be a variable, so
    /// single names are looked up only if they look like a type or a constant.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut is_member = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_path(&mut path, is_member);
                        is_member = false;
                    }
                    path.push(name(&ident));
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Punct(punct) => {
                    self.add_path(&mut path, is_member);
                    is_member = punct.as_char() == '.';
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    self.add_path(&mut path, is_member);
                    (is_member, colons) = (false, 0);
                    self.add_tokens(group.stream());
                }
                TokenTree::Literal(_) => {
                    self.add_path(&mut path, is_member);
                    (is_member, colons) = (false, 0);
                }
            }
        }
        self.add_path(&mut path, is_member);
    }

    fn add_path(&mut self, path: &mut Vec<String>, is_member: bool) {
        let path = std::mem::take(path);
        let is_type = |it: &String| it.starts_with(|first: char| first.is_uppercase());
        if !is_member && (path.len() > 1 || path.first().is_some_and(is_type)) {
            self.add(&path);
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        // An inline module is visited separately.
        if !is_for_tests(attributes(item)) && !matches!(item, syn::Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        for it in used(&item.tree).into_iter().filter(|it| it.name.is_some()) {
            for target in self.all.resolve(self.module, &it.path) {
                let Target::Item(defined) = target else { continue };
                if !(is_re_export(item) && self.all.is_below(defined, self.module)) {
                    self.found.insert(defined);
                }
            }
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !is_for_tests(attributes_within(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        if !is_for_tests(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_for_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !is_for_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|it| name(&it.ident)).collect();
            self.add(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, used: &'ast syn::Macro) {
        if let Some(name) = used.path.get_ident().map(name) {
            self.found.extend(self.all.macros.get(&name));
        }
        self.add_tokens(used.tokens.clone());
        visit::visit_macro(self, used);
    }

    // A path in an attribute or a visibility uses nothing.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}
