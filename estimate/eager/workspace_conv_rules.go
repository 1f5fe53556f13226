package eager

// denseFloat chooses for ungrouped fp32 convolutions in row-major order, on
// tensor cores in TF32. A 1x1 filter is a matrix product on x as it lies, with
// few exceptions; a large sum over channels and filter pays for the copies.
// 547 shapes, 41 leaves; within 10 % for 84 % of them, for 65 % of those held out in
// five-fold cross-validation.
func denseFloat(f *convFacts) convSpace {
	if f.products <= 383<<18 {
		if f.depth <= 160 {
			if f.dims <= 2 {
				return noSpace
			}
			if !f.backward {
				if f.out <= 32 {
					return noSpace
				}
				return copyInWeight
			}
			return copyAll
		}
		if f.filter != 1 {
			if ratio(f.outBytes, f.inBytes) <= 0.5 {
				if f.filter <= 8 {
					return copyAll
				}
				if f.outPixels <= 224 {
					return copyInWeight
				}
				return noSpace
			}
			if f.depth <= 192 {
				return copyAll
			}
			if f.in <= 64 {
				return noSpace
			}
			if f.outPixels <= 64 {
				return copyAll
			}
			return noSpace
		}
		return noSpace
	}
	if f.depth <= 640 {
		if f.depth <= 72 {
			if f.dims <= 2 {
				if f.inBytes <= 11<<18 {
					return copyInWeight
				}
				return noSpace
			}
			return copyAll
		}
		if ratio(f.outBytes, f.weightBytes) <= 20 {
			if f.in <= 16 {
				return noSpace
			}
			if f.tiles <= 144 {
				if f.outBytes <= 249<<13 {
					return copyAll
				}
				return copyInWeight
			}
			return noSpace
		}
		if f.in <= 64 {
			if f.inPixels <= 7<<13 {
				if f.depth <= 416 {
					if f.products <= 19<<23 {
						return noSpace
					}
					return copyAll
				}
				if f.outPixels <= 1<<13 {
					return copyInWeight
				}
				if f.out <= 64 {
					return copyAll
				}
				return noSpace
			}
			return copyInWeight
		}
		return copyAll
	}
	if f.out <= 8 {
		return noSpace
	}
	if f.tiles <= 352 {
		if f.left <= 126 {
			if f.weightBytes <= 5<<16 {
				if f.left <= 60 {
					if f.out <= 16 {
						return noSpace
					}
					return copyInWeight
				}
				if f.inBytes <= 7<<21 {
					if f.out <= 32 {
						return copyAll
					}
					return copyInWeight
				}
				return noSpace
			}
			if f.inBytes <= 5<<20 {
				if f.inBytes <= 1<<22 {
					if !f.dilated {
						return copyAll
					}
					return copyInWeight
				}
				return copyAll
			}
			if f.in <= 960 {
				return copyAll
			}
			if f.rows <= 1<<12 {
				return copyAllTiles
			}
			return copyAll
		}
		if f.inPixels <= 512 {
			return copyAllTiles
		}
		return copyAll4Parts
	}
	return copyAll
}

// denseHalf chooses for ungrouped 16-bit convolutions in row-major order: copies
// of everything, unless the filter is 1x1 or the work is small.
// 528 shapes, 18 leaves; within 10 % for 94 % of them, for 85 % of those held out in
// five-fold cross-validation.
func denseHalf(f *convFacts) convSpace {
	if f.filter != 1 {
		if f.in <= 8 {
			if ratio(f.outBytes, f.weightBytes) <= 1030 {
				return noSpace
			}
			if ratio(f.outBytes, f.inBytes) <= 10 {
				return noSpace
			}
			return copyAll
		}
		if ratio(f.outBytes, f.weightBytes) <= 0.001 {
			return copyAll
		}
		if f.outBytes <= 13<<18 {
			if f.products <= 7<<31 {
				if ratio(f.outBytes, f.inBytes) <= 40 {
					if !f.square {
						if f.filter <= 8 {
							return copyAll
						}
						if f.in <= 64 {
							return noSpace
						}
						return copyAll
					}
					return copyAll
				}
				if f.products <= 21<<22 {
					return noSpace
				}
				return copyAll
			}
			return noSpace
		}
		return copyAll
	}
	if f.weightBytes <= 1<<17 {
		if !f.strided {
			if f.outBytes <= 3<<27 {
				return noSpace
			}
			return copyAll
		}
		return copyAll
	}
	if f.outPixels <= 1024 {
		return copyInOut
	}
	if f.left <= 96 {
		return copyAll
	}
	return noSpace
}

// lastFloat chooses for ungrouped fp32 convolutions in channels-last order.
// 169 shapes, 20 leaves; within 10 % for 78 % of them, for 59 % of those held out in
// five-fold cross-validation.
func lastFloat(f *convFacts) convSpace {
	if f.filter <= 12 {
		if f.weightBytes <= 5<<18 {
			if ratio(f.outBytes, f.inBytes) <= 60 {
				if f.in <= 512 {
					if f.filter <= 4 {
						return noSpace
					}
					if ratio(f.inBytes, f.weightBytes) <= 2 {
						if ratio(f.outBytes, f.inBytes) <= 6 {
							return noSpace
						}
						return copyAll
					}
					if f.out <= 112 {
						if f.out <= 80 {
							if f.batch <= 32 {
								return noSpace
							}
							if !f.dilated {
								return noSpace
							}
							return copyInWeight
						}
						return copyInWeight
					}
					return noSpace
				}
				if f.batch <= 24 {
					return copyInWeight
				}
				return noSpace
			}
			return copyIn
		}
		return noSpace
	}
	if f.depth <= 19456 {
		if f.in <= 160 {
			if f.in <= 8 {
				return copyIn
			}
			if f.depth <= 2368 {
				if f.batch <= 2 {
					return noSpace
				}
				if f.batch <= 32 {
					return copyInWeight
				}
				return noSpace
			}
			return copyInWeight
		}
		if f.outPixels <= 3<<13 {
			return noSpace
		}
		return copyAll
	}
	return copyInWeight
}

// lastHalf chooses for ungrouped 16-bit convolutions in channels-last order: the
// engines read them as they lie.
// 222 shapes, 3 leaves; within 10 % for 91 % of them, for 89 % of those held out in
// five-fold cross-validation.
func lastHalf(f *convFacts) convSpace {
	if f.in <= 8 {
		if f.inPixels <= 2048 {
			return noSpace
		}
		return copyInWeight
	}
	return noSpace
}

// groupedRule chooses for grouped convolutions: small matrices are padded and run
// as one, large ones run group by group.
// 595 shapes, 42 leaves; within 10 % for 85 % of them, for 56 % of those held out in
// five-fold cross-validation.
func groupedRule(f *convFacts) convSpace {
	if f.groups <= 8 {
		if f.matrix <= 7168 {
			if f.matrix <= 1792 {
				if !f.backward {
					if ratio(f.inBytes, f.weightBytes) <= 300 {
						if ratio(f.outBytes, f.weightBytes) <= 150 {
							return noSpace
						}
						if f.outBytes <= 1<<24 {
							return padGroups
						}
						return noSpace
					}
					if f.inBytes <= 1<<23 {
						return loopGroups
					}
					if f.inBytes <= 63<<18 {
						return noSpace
					}
					if f.outBytes <= 1<<23 {
						return loopGroups
					}
					return padGroups
				}
				if f.outBytes <= 1<<21 {
					if ratio(f.inBytes, f.weightBytes) <= 45 {
						return padGroups
					}
					if ratio(f.inBytes, f.weightBytes) <= 150 {
						return loopGroups
					}
					return padGroups
				}
				if f.matrix*f.elem <= 1280 {
					if f.outBytes <= 5<<20 {
						return loopGroups
					}
					return noSpace
				}
				return loopGroups
			}
			if ratio(f.outBytes, f.inBytes) <= 0.06 {
				return loopGroups
			}
			if f.products <= 1<<25 {
				if f.inBytes <= 1<<17 {
					return padGroups
				}
				return loopGroupsNoWeight
			}
			if !f.half {
				if f.depth <= 54 {
					return noSpace
				}
				if ratio(f.inBytes, f.weightBytes) <= 113 {
					return padGroups
				}
				if f.inBytes <= 1<<27 {
					return loopGroups
				}
				return padGroups
			}
			if f.weightBytes <= 27648 {
				if f.in <= 24 {
					return padGroups
				}
				return loopGroups
			}
			return padGroups
		}
		if f.products <= 1<<23 {
			if f.batch <= 4 {
				return noSpace
			}
			if f.inBytes <= 2048 {
				return noSpace
			}
			return padGroups
		}
		if f.outPixels <= 56 {
			if !f.channelsLast {
				if f.outBytes <= 1<<20 {
					return loopGroups
				}
				return loopGroupsNoWeight
			}
			return loopGroupsNoWeight
		}
		if ratio(f.width*f.width, f.inGroup*f.outGroup) <= 1.5 {
			if f.outBytes <= 1<<22 {
				return padGroups
			}
			if !f.channelsLast {
				return loopGroups
			}
			if f.in <= 96 {
				return loopGroups
			}
			return padGroups
		}
		if f.depth <= 32 {
			return noSpace
		}
		return loopGroups
	}
	if f.in <= 96 {
		return noSpace
	}
	if ratio(f.outBytes, f.inBytes) <= 6 {
		if f.weightBytes <= 3<<17 {
			if f.outPixels <= 64 {
				if f.outBytes <= 5<<12 {
					return padGroups
				}
				return noSpace
			}
			return padGroups
		}
		if f.outBytes <= 3<<23 {
			return padGroups
		}
		return loopGroups
	}
	return loopGroups
}
