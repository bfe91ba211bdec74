"""The grid: `auto` beside every fixed method, over populations, epsilons, sizes and mechanisms."""
