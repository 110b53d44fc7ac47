//! Resolves a path to the module that defines its item.

use super::modules::{Binding, Crate, ModuleId, Target};
use std::collections::BTreeSet;

impl Crate<'_> {
    /// All targets of a path in a module. There may be two, because a module and a function can
    /// have the same name. Empty if the path leads out of the crate.
    pub(super) fn resolve(&self, from: ModuleId, path: &[String]) -> BTreeSet<Target> {
        self.follow(from, path, &mut Vec::new())
    }

    /// Whether `module` is `above` or below it.
    pub(super) fn is_below(&self, module: ModuleId, above: ModuleId) -> bool {
        self.ancestors(module).any(|it| it == above)
    }

    /// Resolves a path. `under_way` lists the lookups in progress, as (module, name). It ends
    /// lookups that would go round in a cycle.
    fn follow<'n>(
        &'n self,
        from: ModuleId,
        path: &'n [String],
        under_way: &mut Vec<(ModuleId, &'n str)>,
    ) -> BTreeSet<Target> {
        let Some(first) = path.first() else { return BTreeSet::new() };
        let (mut at, mut rest, mut is_ours) = match first.as_str() {
            "crate" => (self.root(from), &path[1..], true),
            "self" | "super" => (from, path, true),
            _ => (from, path, false),
        };
        while let Some((name, further)) = rest.split_first() {
            rest = further;
            match name.as_str() {
                "self" => continue,
                "super" => {
                    let Some(parent) = self.modules[at].parent else { return BTreeSet::new() };
                    at = parent;
                    continue;
                }
                _ => {}
            }
            let mut targets = self.look_up(at, name, under_way);
            let is_bound = self.modules[at].names.contains_key(name);
            if targets.is_empty() && is_ours && !is_bound {
                // The name is not found, so a macro in this module must create the item.
                targets.insert(Target::Item(at));
            }
            let below = targets.iter().find_map(|it| match it {
                Target::Module(module) => Some(*module),
                Target::Item(_) => None,
            });
            match below {
                Some(module) if !rest.is_empty() => at = module,
                _ => return targets,
            }
            is_ours = true;
        }
        BTreeSet::from([Target::Module(at)])
    }

    /// Finds the targets of a name in a module. If modules glob-import each other, a lookup may
    /// lead to the same lookup again. The inner one then returns nothing, and the outer one finds
    /// the result.
    fn look_up<'n>(
        &'n self,
        module: ModuleId,
        name: &'n str,
        under_way: &mut Vec<(ModuleId, &'n str)>,
    ) -> BTreeSet<Target> {
        if under_way.contains(&(module, name)) {
            return BTreeSet::new();
        }
        let key = (module, name.to_owned());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        under_way.push((module, name));
        let targets = self.look_up_once(module, name, under_way);
        under_way.pop();
        // Only the outermost result is cached: an inner one may be incomplete because of a cycle.
        if under_way.is_empty() {
            self.known.borrow_mut().insert(key, targets.clone());
        }
        targets
    }

    fn look_up_once<'n>(
        &'n self,
        module: ModuleId,
        name: &'n str,
        under_way: &mut Vec<(ModuleId, &'n str)>,
    ) -> BTreeSet<Target> {
        let mut targets = BTreeSet::new();
        for binding in self.modules[module].names.get(name).into_iter().flatten() {
            match binding {
                Binding::Module(below) => drop(targets.insert(Target::Module(*below))),
                Binding::Item(defined) => drop(targets.insert(Target::Item(*defined))),
                Binding::Use(path) => targets.extend(self.follow(module, path, under_way)),
            }
        }
        if !targets.is_empty() {
            return targets;
        }
        for glob in &self.modules[module].globs {
            for target in self.follow(module, glob, under_way) {
                match target {
                    Target::Module(within) if within != module => {
                        targets.extend(self.look_up(within, name, under_way));
                    }
                    Target::Module(_) | Target::Item(_) => {}
                }
            }
        }
        targets
    }

    fn root(&self, module: ModuleId) -> ModuleId {
        self.ancestors(module).last().unwrap_or(module)
    }

    fn ancestors(&self, module: ModuleId) -> impl Iterator<Item = ModuleId> {
        std::iter::successors(Some(module), |it| self.modules[*it].parent)
    }
}
