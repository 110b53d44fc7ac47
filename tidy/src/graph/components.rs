//! Directed graphs and their strongly connected components.

use std::collections::{BTreeMap, BTreeSet};

/// Maps each node's name to the nodes that its edges lead to.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The strongly connected components (each node reaches each other one) that have several nodes.
pub(crate) fn components(graph: &Graph) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|it| (it.as_str(), reached_from(graph, it))).collect();
    let mut components = BTreeSet::new();
    for (node, ahead) in &reached {
        let leads_back = |other: &&str| reached.get(other).is_some_and(|it| it.contains(node));
        let component: BTreeSet<&str> = ahead.iter().copied().filter(leads_back).collect();
        if component.len() > 1 {
            components.insert(component);
        }
    }
    components.into_iter().collect()
}

fn reached_from<'g>(graph: &'g Graph, node: &'g str) -> BTreeSet<&'g str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![node]);
    while let Some(node) = next.pop() {
        let ahead = graph.get(node).into_iter().flatten().map(String::as_str);
        next.extend(ahead.filter(|it| reached.insert(*it)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_what_leads_to_itself_and_back() {
        let edges = ["ab", "ba", "bc", "cd", "de", "ec", "ef", "gg"];
        let mut graph = Graph::new();
        for edge in edges {
            graph.entry(edge[..1].to_owned()).or_default().insert(edge[1..].to_owned());
        }
        let expected = [BTreeSet::from(["a", "b"]), BTreeSet::from(["c", "d", "e"])];
        assert_eq!(components(&graph), expected);
    }
}
