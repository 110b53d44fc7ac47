//! Tables that are made to fit a width.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent, presets,
};

/// The first `texts` columns contain text, the others numbers.
pub(super) fn table(head: &[&str], texts: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─')
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(head.iter().copied());
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The table as lines. If they would be wider than `width` columns, columns are left out, in the
/// order of `spare`, until the table fits.
pub(super) fn trimmed(mut table: Table, spare: &[&str], width: usize) -> String {
    for name in spare {
        if natural_width(&table) <= width {
            break;
        }
        let head = table.header().into_iter().flat_map(|row| row.cell_iter());
        let at = head.map(|cell| cell.content()).position(|head| head == *name);
        if let Some(column) = at.and_then(|at| table.column_mut(at)) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// The width that the table needs if no cell is wrapped.
fn natural_width(table: &Table) -> usize {
    let widths = table.column_max_content_widths();
    let columns = table.column_iter().zip(widths).filter(|(column, _)| !column.is_hidden());
    // A space separates two columns.
    let each = columns.map(|(column, width)| usize::from(width + column.padding_width()) + 1);
    each.sum::<usize>().saturating_sub(1)
}
