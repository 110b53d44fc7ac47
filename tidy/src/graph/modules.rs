//! The module tree of a crate, built from its `mod` items, beginning with the roots.

use super::cfg::{attributes, is_for_tests};
use crate::Source;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, ItemMod, UseTree, Visibility};

/// The number of a module in [`Crate::modules`].
pub(super) type ModuleId = usize;

/// All modules of a crate: those of its library and of its programs.
pub(crate) struct Crate<'w> {
    /// The folder of the sources, with a trailing slash.
    folder: String,
    files: BTreeMap<&'w str, &'w Source>,
    pub(super) modules: Vec<Module<'w>>,
    /// For the name of each macro of the crate, the module that defines it. Code after the
    /// definition may name the macro without a path.
    pub(super) macros: BTreeMap<String, ModuleId>,
    /// Cache: the targets of names that were looked up in a module.
    pub(super) known: RefCell<BTreeMap<(ModuleId, String), BTreeSet<Target>>>,
    /// The files of all modules, including those of tests.
    reached: BTreeSet<&'w str>,
}

/// A module: a file, or an inline module (`mod x { ... }`).
pub(super) struct Module<'w> {
    /// The names from the root of the crate down to the module.
    pub(super) path: Vec<String>,
    pub(super) file: &'w str,
    pub(super) parent: Option<ModuleId>,
    pub(super) items: &'w [Item],
    pub(super) names: BTreeMap<String, Vec<Binding>>,
    /// The paths of its `use path::*` items.
    pub(super) globs: Vec<Vec<String>>,
    pub(super) is_test: bool,
}

/// The meaning of a name in a module.
#[derive(Debug, Clone)]
pub(super) enum Binding {
    Module(ModuleId),
    /// An item that this module defines.
    Item(ModuleId),
    /// The path that a `use` item binds to the name.
    Use(Vec<String>),
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Module(ModuleId),
    /// An item that is defined in this module.
    Item(ModuleId),
}

/// A path that a `use` brings in.
pub(super) struct Used {
    pub(super) path: Vec<String>,
    /// The name that the path gets; None for `*`.
    pub(super) name: Option<String>,
}

/// The folders in which the files of a module's child modules are.
#[derive(Clone)]
struct Place {
    /// The folder of the file that contains the module.
    of_file: String,
    /// The folder for the module's children.
    of_children: String,
    is_in_braces: bool,
}

impl<'w> Crate<'w> {
    /// The source folders of all crates.
    pub(crate) fn folders(code: &[Source]) -> BTreeSet<&str> {
        let roots = code.iter().filter_map(|it| {
            let folder = it.path.strip_suffix("lib.rs").or(it.path.strip_suffix("main.rs"))?;
            folder.strip_suffix('/').filter(|it| it.ends_with("/src"))
        });
        roots.collect()
    }

    /// Reads the crate whose sources are in a folder, such as `server/src`.
    pub(crate) fn read(code: &'w [Source], folder: &str) -> Self {
        let files = code.iter().map(|it| (it.path.as_str(), it)).collect();
        let mut all = Self {
            folder: format!("{folder}/"),
            files,
            modules: Vec::new(),
            macros: BTreeMap::new(),
            known: RefCell::default(),
            reached: BTreeSet::new(),
        };
        let folder = all.folder.clone();
        for root in all.own_files().filter(|it| is_root(&it[folder.len()..])).collect::<Vec<_>>() {
            let of_file = folder_of(root).to_owned();
            let place = Place { of_children: of_file.clone(), of_file, is_in_braces: false };
            all.add_file(root, Vec::new(), None, place, false);
        }
        all
    }

    /// The files that no `mod` item leads to.
    pub(crate) fn unreached(&self) -> Vec<String> {
        let unreached = self.own_files().filter(|it| !self.reached.contains(it));
        unreached.map(str::to_owned).collect()
    }

    /// The top-level module of each file. `lib.rs` and `main.rs` are in none.
    pub(crate) fn top_level(&self) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for module in &self.modules {
            // In `modules`, the module of a whole file comes before the inline modules in the file.
            names.entry(module.file).or_insert(module.path.first());
        }
        let named = names.into_iter().filter_map(|(file, name)| Some((file, name?)));
        named.map(|(file, name)| (file.to_owned(), name.clone())).collect()
    }

    fn own_files(&self) -> impl Iterator<Item = &'w str> {
        self.files.keys().copied().filter(|it| it.starts_with(&self.folder))
    }

    fn add_file(
        &mut self,
        file: &'w str,
        path: Vec<String>,
        parent: Option<ModuleId>,
        place: Place,
        is_test: bool,
    ) -> Option<ModuleId> {
        let source = *self.files.get(file)?;
        self.reached.insert(file);
        let parsed = source.file()?;
        let is_test = is_test || source.is_test() || is_for_tests(&parsed.attrs);
        let items = parsed.items.as_slice();
        Some(self.add(Module { is_test, ..Module::new(path, file, parent, items) }, &place))
    }

    /// Adds a module and the modules below it.
    fn add(&mut self, module: Module<'w>, place: &Place) -> ModuleId {
        let id = self.modules.len();
        let (items, is_test) = (module.items, module.is_test);
        self.modules.push(module);
        for item in items {
            let is_test = is_test || is_for_tests(attributes(item));
            match item {
                Item::Mod(item) => self.add_below(id, item, place, is_test),
                _ if is_test => {}
                Item::Use(item) => self.bind_use(id, item),
                Item::Macro(item) => self.bind_macro(id, item),
                item => {
                    if let Some(name) = name_of(item) {
                        self.bind(id, name, Binding::Item(id));
                    }
                }
            }
        }
        id
    }

    fn add_below(&mut self, parent: ModuleId, item: &'w ItemMod, place: &Place, is_test: bool) {
        let Module { file, path, .. } = &self.modules[parent];
        let (name, file) = (name(&item.ident), *file);
        let path = [path.as_slice(), std::slice::from_ref(&name)].concat();
        let below = format!("{}{name}/", place.of_children);
        let id = match &item.content {
            Some((_, items)) => {
                let module = Module { is_test, ..Module::new(path, file, Some(parent), items) };
                let place = Place { of_children: below, is_in_braces: true, ..place.clone() };
                Some(self.add(module, &place))
            }
            None => self.find(item, place, &name).and_then(|file| {
                let of_file = folder_of(file).to_owned();
                let is_folder = file.ends_with("/mod.rs") || path_attribute(item).is_some();
                let of_children = if is_folder { of_file.clone() } else { below };
                let place = Place { of_file, of_children, is_in_braces: false };
                self.add_file(file, path, Some(parent), place, is_test)
            }),
        };
        if let Some(id) = id {
            self.bind(parent, name, Binding::Module(id));
        }
    }

    /// Finds the file of a module whose `mod` item has no body.
    fn find(&self, item: &ItemMod, place: &Place, name: &str) -> Option<&'w str> {
        let candidates = match path_attribute(item) {
            Some(path) if place.is_in_braces => vec![normal(&place.of_children, &path)],
            Some(path) => vec![normal(&place.of_file, &path)],
            None => ["", "/mod"].map(|it| format!("{}{name}{it}.rs", place.of_children)).to_vec(),
        };
        candidates.iter().find_map(|it| self.files.get_key_value(it.as_str())).map(|(it, _)| *it)
    }

    fn bind(&mut self, module: ModuleId, name: String, binding: Binding) {
        self.modules[module].names.entry(name).or_default().push(binding);
    }

    fn bind_use(&mut self, module: ModuleId, item: &syn::ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        for Used { path, name } in used(&item.tree) {
            match name {
                Some(name) => self.bind(module, name, Binding::Use(path)),
                None => self.modules[module].globs.push(path),
            }
        }
    }

    fn bind_macro(&mut self, module: ModuleId, item: &syn::ItemMacro) {
        let Some(name) = item.ident.as_ref().map(name) else { return };
        let is_exported = item.attrs.iter().any(|it| it.path().is_ident("macro_export"));
        let root = (0..=module).rev().find(|it| self.modules[*it].parent.is_none());
        if let Some(root) = root.filter(|_| is_exported) {
            self.bind(root, name.clone(), Binding::Item(module));
        }
        self.bind(module, name.clone(), Binding::Item(module));
        self.macros.insert(name, module);
    }
}

impl<'w> Module<'w> {
    fn new(path: Vec<String>, file: &'w str, parent: Option<ModuleId>, items: &'w [Item]) -> Self {
        let (names, globs) = (BTreeMap::new(), Vec::new());
        Self { path, file, parent, items, names, globs, is_test: false }
    }
}

/// The paths that a `use` item imports, each with the name that it binds to the path.
pub(super) fn used(tree: &UseTree) -> Vec<Used> {
    let mut all = Vec::new();
    flatten(tree, &[], &mut all);
    all
}

fn flatten(tree: &UseTree, before: &[String], all: &mut Vec<Used>) {
    let with = |ident: &syn::Ident| [before, &[name(ident)]].concat();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident), all),
        UseTree::Group(group) => group.items.iter().for_each(|it| flatten(it, before, all)),
        UseTree::Glob(_) => all.push(Used { path: before.to_vec(), name: None }),
        UseTree::Name(it) if it.ident == "self" => {
            all.push(Used { path: before.to_vec(), name: before.last().cloned() });
        }
        UseTree::Name(it) => all.push(Used { path: with(&it.ident), name: Some(name(&it.ident)) }),
        UseTree::Rename(it) if it.ident == "self" => {
            all.push(Used { path: before.to_vec(), name: Some(name(&it.rename)) });
        }
        UseTree::Rename(it) => {
            all.push(Used { path: with(&it.ident), name: Some(name(&it.rename)) });
        }
    }
}

/// Whether a `use` item makes its names visible to other modules.
pub(super) fn is_re_export(item: &syn::ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}

/// The name without the `r#` of a raw identifier.
pub(super) fn name(ident: &syn::Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

/// The name of an item in its module. An `impl` has no name.
fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::TraitAlias(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(name(ident))
}

fn path_attribute(item: &ItemMod) -> Option<String> {
    item.attrs.iter().filter(|it| it.path().is_ident("path")).find_map(|attribute| {
        let pair = attribute.meta.require_name_value().ok()?;
        let syn::Expr::Lit(literal) = &pair.value else { return None };
        let syn::Lit::Str(text) = &literal.lit else { return None };
        Some(text.value())
    })
}

/// Whether this file (relative to the source folder) is the root of the library or of a program.
fn is_root(file: &str) -> bool {
    let is_program = || file.strip_prefix("bin/").is_some_and(|name| !name.contains('/'));
    matches!(file, "lib.rs" | "main.rs") || is_program()
}

/// The folder of a file, with a trailing slash.
fn folder_of(file: &str) -> &str {
    file.rfind('/').map_or("", |at| &file[..=at])
}

/// Joins a folder and a relative path, and resolves `..`.
fn normal(folder: &str, path: &str) -> String {
    let mut folders: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
    for name in path.split('/') {
        if name == ".." {
            folders.pop();
        } else {
            folders.push(name);
        }
    }
    folders.join("/")
}
